// A histogram of background rows → a table of values.
#pragma once

#include "compile/background_plan.hpp"

namespace linear_treeshap {

// The table of some leaves, from a histogram of the background rows' states.
void fill_table(const Chunk& chunk, const Tree& tree, const BackgroundTree& plan, const LeafTable& table,
                const double* histogram, const Moments& moments, bool of_pairs, double scale, double* out);

}  // namespace linear_treeshap
