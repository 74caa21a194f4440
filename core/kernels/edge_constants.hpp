// The constants of the recurrence for an edge and a quadrature point.
//
// Factor and difference (see set_kernel.cpp) depend on the row only through the state of the edge's
// player: already unsatisfied above, unsatisfied here, or satisfied. With c_above and c the player's
// absent weights above and including this edge, u_above = t + (1-t)·c_above and u = t + (1-t)·c:
//
//   state               factor            difference  ω·[(a-c)/u - (a_above-c_above)/u_above]
//   unsatisfied above   w                 0
//   unsatisfied here    (1-t)·c/u_above   -ω / ((1-t)·u_above)
//   satisfied           u/u_above         ω·(c_above - c) / (u·u_above)
//
// The last column is simplified by hand, so nothing cancels; with no edge above, c_above = 1.
#pragma once

#include "compile/program.hpp"
#include "kernels/isa.hpp"
#include "model/at.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

enum State { kUnsatisfiedAbove, kUnsatisfied, kSatisfied };

struct EdgeConstants {
    double factor[3];
    double difference[3];
};

inline EdgeConstants edge_constants(const Split& split, int side, const Rule& rule, int k) {
    const auto point = at(k);
    const double t = rule.point[point], absent = rule.absent[point], weight = rule.weight[point];
    const double w = split.ratio[side];
    const double c = split.absent_above * w;
    const double u = t + absent * c;
    const double per_u_above = split.above < 0 ? 1.0 : 1.0 / (t + absent * split.absent_above);
    return {{w, absent * c * per_u_above, u * per_u_above},
            {0.0, -rule.weight_per_absent[point] * per_u_above,
             weight * (split.absent_above * split.ratio[1 - side]) * per_u_above / u}};
}

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
