// The walk that collects the indices of sets of players (see set_plan.hpp), rows in SIMD lanes.
//
// It is that of blocks of rows (block_walk.hpp), with as few rows as leave φ in a near cache: by one number δ for the
// two edges of a split, whose sides are the rare and the common one. C starts as ω, and f = w + τ·δ:
//
//   carry   C_rare = C · f     C_common = C - C_rare       keep what both edges say of the player
//   close   D = κ · C · (G_rare - G_common)                φ_{i} += δ · Σ_k D[k]
//           for each other player above: D' = D · γ,       φ_{i, j} += δ · Σ_k D'[k], and so on from D'
//           G = G_common + f · (G_rare - G_common)
//
// γ is a constant of the edge where the row satisfies it, and the same for all edges where it does not: the sum over
// points of the last γ is taken for both, with no γ in lanes, and then selected.

#include "kernels/set_kernel.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "kernels/block_walk.hpp"
#include "kernels/conditions.hpp"
#include "kernels/isa.hpp"
#include "kernels/lanes.hpp"
#include "kernels/simd.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {
namespace {

// Points at which a tree is walked at once, at most: D should stay in registers.
constexpr int kMostPoints = kLanes > 4 ? kMaxBlockPoints : 4;

// Sets to which a walk adds before it looks up: some milliseconds, or less than one tree.
constexpr std::size_t kSetsAtOnce = std::size_t{1} << 20;

// Counts what is done, and looks up when that is much.
struct Patience {
    const Worker& worker;
    std::size_t n_sets = 0;

    LTS_INLINE bool goes_on(std::size_t more) {
        n_sets += more;
        if (n_sets < kSetsAtOnce) [[likely]]
            return true;
        n_sets = 0;
        return worker.advance(0);
    }
};

// An edge on the path, and those above of the same player.
template <class Lanes>
struct alignas(32) PathEdge {
    static constexpr std::size_t kMostGroups = std::is_same_v<Lanes, Vec> ? 1 : 4;

    std::array<double, kMaxBlockPoints> gamma;  // of rows that satisfy them: (1-c)/u
    std::uint64_t rows;                         // that do: a bit each
    double absent, rest;                        // c, and 1 - c, of which no digit has cancelled
    std::array<typename In<Lanes>::Mask, kMostGroups> satisfied;
};

// What a walk reads and writes, beside the tree. Rows are in groups of as many as there are lanes.
template <class Lanes>
struct SetMemory {
    const std::uint64_t* left;  // by condition of the chunk: a bit for each row of a block that goes left
    int first_row, n_groups;
    double* phi;             // [set][output][group]
    PathEdge<Lanes>* edges;  // by place
    double* stack;           // [place][output][group][point] G; and until the last output's is known, C in its place
};

template <class Lanes, int K>
class SetWalk {
  public:
    SetWalk(const SetProgram& program, const SetTree& tree, const Chunk& chunk, const BlockPoints<K>& points,
            const SetMemory<Lanes>& memory)
        : tree_(tree),
          splits_(tree.tree->first_split),
          values_(chunk.leaf_value.data()),
          p_(points),
          m_(memory),
          n_outputs_(chunk.n_outputs),
          min_order_(program.min_order),
          max_order_(program.max_order),
          set_doubles_(at(chunk.n_outputs * memory.n_groups) * kRows) {
        for (std::size_t k = 0; k < K; ++k) unsatisfied_[k] = In<Lanes>::all(-1.0 / points.absent[k]);
    }

    static std::size_t stack_doubles(int n_levels, int n_outputs, int n_groups) {
        return at(place_below(n_levels, 0)) * at(n_outputs) * at(n_groups) * kPointsDoubles;
    }

    // Returns false if the work must stop.
    bool run(Patience& patience) const { return SetWalk(*this).run_here(patience); }

  private:
    using Points = std::array<Lanes, K>;
    using Edge = PathEdge<Lanes>;

    static constexpr bool kFew = std::is_same_v<Lanes, Vec>;  // rows, which are one group
    static constexpr int kRows = In<Lanes>::kLanes;
    static constexpr std::size_t kPointsDoubles = std::size_t{K} * kRows;

    // Of a copy, which no store can change.
    LTS_INLINE bool run_here(Patience& patience) {
        Edge& none = m_.edges[0];
        none.rows = ~std::uint64_t{0};
        none.absent = 1.0;
        none.rest = 0.0;
        for (int i = 0; i < n_groups(); ++i)
            for (int k = 0; k < K; ++k) store(c_at(0), i * K + k, In<Lanes>::all(p_.weight[at(k)]));
        above_ = tree_.above.data();
        slots_ = tree_.slots.data();
        for (const auto& step : tree_.steps) {
            const std::int32_t* const slots = slots_;
            take(step);
            if (!patience.goes_on(static_cast<std::size_t>(slots_ - slots) * at(n_outputs_ * n_groups()))) return false;
        }
        return true;
    }

    LTS_INLINE int n_groups() const { return kFew ? 1 : m_.n_groups; }
    LTS_INLINE static Lanes load(const double* from, int k) { return In<Lanes>::load(from + k * kRows); }
    LTS_INLINE static void store(double* to, int k, Lanes a) { In<Lanes>::store(to + k * kRows, a); }
    // Of the first group.
    LTS_INLINE double* g_at(std::int32_t place, int output) const {
        return m_.stack + at((place * n_outputs_ + output) * n_groups()) * kPointsDoubles;
    }
    LTS_INLINE double* c_at(std::int32_t place) const { return g_at(place, n_outputs_ - 1); }
    // Those of a group.
    LTS_INLINE unsigned of_group(std::uint64_t rows, int group) const {
        return static_cast<unsigned>(rows >> (m_.first_row + group * kRows));
    }
    LTS_INLINE std::uint64_t goes_rare(const PackedSplit& split) const {
        const std::uint64_t left = m_.left[split.asks()];
        return split.rare_side() == 0 ? left : ~left;
    }

    // ---- splits -----------------------------------------------------------------------------------

    // A split of a new player.
    class MetNew {
      public:
        LTS_INLINE MetNew(const SetWalk& walk, const SetStep&, const PackedSplit& split)
            : rare_(walk.goes_rare(split) >> walk.m_.first_row), ratio_(In<Lanes>::all(split.rare_ratio)) {
            for (std::size_t k = 0; k < K; ++k) t_[k] = In<Lanes>::all(walk.p_.t[k]);
        }

        class Here {  // as some rows meet it
          public:
            Lanes delta;

            LTS_INLINE Here(const MetNew& met, int group)
                : delta(In<Lanes>::ones(static_cast<unsigned>(met.rare_ >> (group * kRows))) - met.ratio_) {
                for (std::size_t k = 0; k < K; ++k) over_[k] = fma(delta, met.t_[k], met.ratio_);
            }
            LTS_INLINE Lanes to_rare(Lanes c, int k) const { return c * over_[at(k)]; }
            LTS_INLINE Lanes to_common(Lanes c, int k) const { return c - c * over_[at(k)]; }
            LTS_INLINE Lanes together(Lanes rare, Lanes common, int k) const {
                return fma(over_[at(k)], rare - common, common);
            }
            // κ·x
            LTS_INLINE Lanes by_kappa(Lanes x, int) const { return x; }

          private:
            Points over_;
        };

      private:
        std::uint64_t rare_;
        Lanes ratio_;
        Points t_;
    };

    // And one of a repeated player. As τ may be so near to 1 that 1 - τ has no digits left, that is computed as
    // (1-t)·c/u, and both edges have factors of their own.
    class MetAgain {
      public:
        LTS_INLINE MetAgain(const SetWalk& walk, const SetStep& step, const PackedSplit& split)
            : walk_(walk),
              above_(walk.m_.edges[step.above].rows),
              rare_(walk.goes_rare(split)),
              ratio_(In<Lanes>::all(split.rare_ratio)),
              other_(In<Lanes>::all(split.ratio_at(1))) {
            const Quad c = spread(walk.m_.edges[step.above].absent);
            for (std::size_t k = 0; k < kNumbers; k += 4) {
                const Quad t = load_quad(&walk.p_.t[k]), absent = load_quad(&walk.p_.absent[k]) * c;
                const Quad per_u = spread(1.0) / (t + absent);
                store_quad(&tau_[k], t * per_u);
                store_quad(&rest_[k], absent * per_u);
                store_quad(&kappa_[k], c * per_u * per_u);
            }
        }

        class Here {
          public:
            Lanes delta;

            LTS_INLINE Here(const MetAgain& met, int group) : met_(met) {
                const unsigned above = met.walk_.of_group(met.above_, group);
                const unsigned rare = met.walk_.of_group(met.rare_, group);
                const Lanes is_satisfied = In<Lanes>::ones(above), is_not = In<Lanes>::ones(~above);
                rare_ = {met.ratio_ * is_not, met.ratio_ * is_satisfied, In<Lanes>::ones(above & rare)};
                common_ = {met.other_ * is_not, met.other_ * is_satisfied, In<Lanes>::ones(above & ~rare)};
                delta = rare_.goes - rare_.satisfied;
            }
            LTS_INLINE Lanes to_rare(Lanes c, int k) const { return c * over(rare_, k); }
            LTS_INLINE Lanes to_common(Lanes c, int k) const { return c * over(common_, k); }
            LTS_INLINE Lanes together(Lanes rare, Lanes common, int k) const {
                return fma(over(rare_, k), rare, over(common_, k) * common);
            }
            LTS_INLINE Lanes by_kappa(Lanes x, int k) const { return x * In<Lanes>::all(met_.kappa_[at(k)]); }

          private:
            struct Side {
                Lanes unsatisfied, satisfied;  // its ratio, of rows that are so above, else 0
                Lanes goes;                    // 1 of those that are satisfied and go there
            };
            LTS_INLINE Lanes over(const Side& side, int k) const {
                const Lanes rest = fma(side.satisfied, In<Lanes>::all(met_.rest_[at(k)]), side.unsatisfied);
                return fma(side.goes, In<Lanes>::all(met_.tau_[at(k)]), rest);
            }

            const MetAgain& met_;
            Side rare_, common_;
        };

      private:
        static constexpr std::size_t kNumbers = BlockPoints<K>::kNumbers;

        const SetWalk& walk_;
        std::uint64_t above_, rare_;
        Lanes ratio_, other_;
        alignas(32) std::array<double, kNumbers> tau_, rest_, kappa_;
    };
    template <SetOp kOp>
    using Met = std::conditional_t<(kOp & kSetIsRepeated) != 0, MetAgain, MetNew>;

    // C, over the edges to children that are splits.
    template <SetOp kOp>
    LTS_INLINE void carry(const SetStep& step) {
        constexpr bool to_rare = (kOp & kSetRareIsLeaf) == 0, to_common = (kOp & kSetCommonIsLeaf) == 0;
        const PackedSplit& split = splits_[step.split];
        const Met<kOp> met(*this, step, split);
        const std::int32_t rare = place_below(step.level, 0), common = place_below(step.level, 1);
        const double* from = c_at(step.place);
        double *c_rare = c_at(rare), *c_common = c_at(common);
        for (int i = 0; i < n_groups(); ++i) {
            const typename Met<kOp>::Here here(met, i);
            for (int k = 0; k < K; ++k) {
                const Lanes c = load(from, k);
                if constexpr (to_rare) store(c_rare, k, here.to_rare(c, k));
                if constexpr (to_common) store(c_common, k, here.to_common(c, k));
            }
            from += kPointsDoubles;
            c_rare += kPointsDoubles;
            c_common += kPointsDoubles;
        }
        const std::uint64_t goes = goes_rare(split);
        if constexpr (to_rare) keep_edge(m_.edges[step.above], split.ratio_at(0), split.ratio_at(1), goes, rare);
        if constexpr (to_common) keep_edge(m_.edges[step.above], split.ratio_at(1), split.ratio_at(0), ~goes, common);
    }
    LTS_INLINE void keep_edge(const Edge& above, double ratio, double other, std::uint64_t rows,
                              std::int32_t place) const {
        Edge& edge = m_.edges[place];
        const std::uint64_t here = above.rows & rows;
        edge.rows = here;
        for (int g = 0; g < n_groups(); ++g) edge.satisfied[at(g)] = In<Lanes>::mask(of_group(here, g));
        edge.absent = above.absent * ratio;
        edge.rest = above.rest + above.absent * other;
        for (std::size_t k = 0; k < BlockPoints<K>::kNumbers; k += 4) {
            const Quad u = fma(load_quad(&p_.absent[k]), spread(edge.absent), load_quad(&p_.t[k]));
            store_quad(&edge.gamma[k], spread(edge.rest) / u);
        }
    }

    // What is due to a split's player and its sets with those above, of some rows.
    struct Due {
        Points d;
        Lanes delta;
        Lanes unsatisfied;  // Σ D·γ where the other player's edge is not satisfied
    };
    // Groups whose D are at hand together. What an edge says is read once for all of them; but where they are few
    // enough to stay in registers, nothing is quicker than one after the other.
    static constexpr int kTogether = kFew || K <= 3 ? 1 : Edge::kMostGroups;
    using AllDue = std::array<Due, kTogether>;

    // G, from that of both children.
    template <SetOp kOp>
    LTS_INLINE void close(const SetStep& step) {
        constexpr bool rare_is_leaf = (kOp & kSetRareIsLeaf) != 0, common_is_leaf = (kOp & kSetCommonIsLeaf) != 0;
        const PackedSplit& split = splits_[step.split];
        const Met<kOp> met(*this, step, split);
        const std::int32_t* end_of_slots = slots_;
        for (int output = 0; output < n_outputs_; ++output) {
            const auto value = [&](std::size_t side) LTS_INLINED {
                return values_[at(~split.child[side]) * at(n_outputs_) + at(output)];
            };
            const Lanes rare_leaf = In<Lanes>::all(rare_is_leaf ? value(0) : 0.0);
            const Lanes common_leaf = In<Lanes>::all(common_is_leaf ? value(1) : 0.0);
            const double* c = c_at(step.place);
            const double* g_rare = g_at(place_below(step.level, 0), output);
            const double* g_common = g_at(place_below(step.level, 1), output);
            double* g = g_at(step.place, output);
            AllDue due;
            for (int first = 0; first < n_groups(); first += kTogether) {
                const int n_due = kTogether == 1 ? 1 : n_groups();
                for (int i = 0; i < n_due; ++i) {
                    const typename Met<kOp>::Here here(met, first + i);
                    due[at(i)].delta = here.delta;
                    for (int k = 0; k < K; ++k) {
                        Lanes rare, common;
                        if constexpr (rare_is_leaf)
                            rare = rare_leaf;
                        else
                            rare = load(g_rare, k);
                        if constexpr (common_is_leaf)
                            common = common_leaf;
                        else
                            common = load(g_common, k);
                        due[at(i)].d[at(k)] = here.by_kappa(load(c, k), k) * (rare - common);
                        store(g, k, here.together(rare, common, k));
                    }
                    c += kPointsDoubles;
                    g_rare += kPointsDoubles;
                    g_common += kPointsDoubles;
                    g += kPointsDoubles;
                }
                end_of_slots = collect(due, first, n_due, step.n_above, output);
            }
        }
        slots_ = end_of_slots;
        above_ += step.n_above;
    }

    // ---- sets -------------------------------------------------------------------------------------

    // Of the first group.
    LTS_INLINE double* phi_of(std::int32_t set, int output) const {
        return m_.phi + at(set) * set_doubles_ + at(output * n_groups()) * kRows;
    }
    // φ += δ·x
    LTS_INLINE static void add(double* phi, Lanes delta, Lanes x) {
        In<Lanes>::store(phi, fma(delta, x, In<Lanes>::load(phi)));
    }
    LTS_INLINE static Lanes sum_of(const Points& d) {
        Lanes sum = d[0];
        for (int k = 1; k < K; ++k) sum = sum + d[at(k)];
        return sum;
    }
    LTS_INLINE static Points gamma_of(const Edge& edge) {
        Points out;
        for (std::size_t k = 0; k < K; ++k) out[k] = In<Lanes>::all(edge.gamma[k]);
        return out;
    }
    // Σ D·γ
    LTS_INLINE static Lanes sum_with(const Points& d, const Points& gamma) {
        Lanes sum = d[0] * gamma[0];
        for (int k = 1; k < K; ++k) sum = fma(d[at(k)], gamma[at(k)], sum);
        return sum;
    }

    // Adds D, and D times the γ of every choice of players above, of some groups from the first on. Returns where the
    // slots of the next step begin.
    LTS_INLINE const std::int32_t* collect(AllDue& all, int first, int n_due, std::int32_t n_above, int output) const {
        const std::int32_t *slots = slots_, *above = above_;
        double* const to = phi_of(0, output) + first * kRows;
        if (min_order_ == 1) {
            double* phi = to + at(*slots++) * set_doubles_;
            for (int i = 0; i < n_due; ++i, phi += kRows) add(phi, all[at(i)].delta, sum_of(all[at(i)].d));
        }
        if (max_order_ == 2) {
            for (int i = 0; i < n_due; ++i) all[at(i)].unsatisfied = sum_with(all[at(i)].d, unsatisfied_);
            for (const std::int32_t* const end = above + n_above; above != end; ++above) {
                const Edge& edge = m_.edges[*above];
                const Points gamma = gamma_of(edge);
                const auto* satisfied = &edge.satisfied[at(first)];
                double* phi = to + at(*slots++) * set_doubles_;
                for (int i = 0; i < n_due; ++i, phi += kRows) {
                    const Due& here = all[at(i)];
                    add(phi, here.delta, In<Lanes>::choose(satisfied[i], sum_with(here.d, gamma), here.unsatisfied));
                }
            }
        }
        if (max_order_ > 2) {
            const SetWalk walk = *this;  // copies, which may be known elsewhere
            const AllDue copies = all;
            const std::int32_t* const begin = slots;
            for (int i = 0; i < n_due; ++i) {
                slots = begin;
                walk.collect_more(copies[at(i)].d, copies[at(i)].delta, 1, above_, n_above, output, first + i, slots);
            }
        }
        return slots;
    }
    // `order` players are in D already.
    [[gnu::noinline]] void collect_more(const Points& d, Lanes delta, int order, const std::int32_t* above,
                                        std::int32_t n_above, int output, int group, const std::int32_t*& slots) const {
        for (std::int32_t i = 0; i < n_above; ++i) {
            const Edge& edge = m_.edges[above[i]];
            Points more;
            for (int k = 0; k < K; ++k)
                more[at(k)] = d[at(k)] * In<Lanes>::choose(edge.satisfied[at(group)], In<Lanes>::all(edge.gamma[at(k)]),
                                                           unsatisfied_[at(k)]);
            if (order + 1 >= min_order_) add(phi_of(*slots++, output) + group * kRows, delta, sum_of(more));
            if (order + 1 < max_order_)
                collect_more(more, delta, order + 1, above + i + 1, n_above - i - 1, output, group, slots);
        }
    }

    // ---- what a step does -------------------------------------------------------------------------

    template <SetOp kOp>
    LTS_INLINE void take(const SetStep& step) {
        if constexpr (kOp >= kSetCloses)
            close<kOp>(step);
        else
            carry<kOp>(step);
    }
    // All in one function, so that nothing is put away and fetched again between steps.
    LTS_INLINE void take(const SetStep& step) {
        // Whether it is one of the most frequent ones is foretold better than where a jump goes.
        constexpr SetOp leaves = kSetRareIsLeaf | kSetCommonIsLeaf;
        if (step.op == (kSetCloses | leaves)) return take<kSetCloses | leaves>(step);
        if (step.op == 0) return take<0>(step);
        if (step.op == kSetCloses) return take<kSetCloses>(step);
        // clang-format off
        switch (step.op) {
            case 1: return take<1>(step);
            case 2: return take<2>(step);
            case 4: return take<4>(step);
            case 5: return take<5>(step);
            case 6: return take<6>(step);
            case 9: return take<9>(step);
            case 10: return take<10>(step);
            case 12: return take<12>(step);
            case 13: return take<13>(step);
            case 14: return take<14>(step);
            default: return take<15>(step);
        }
        // clang-format on
    }

    const SetTree& tree_;
    const PackedSplit* splits_;
    const double* values_;  // of leaves
    const BlockPoints<K>& p_;
    SetMemory<Lanes> m_;
    int n_outputs_, min_order_, max_order_;
    std::size_t set_doubles_;                                 // of φ
    Points unsatisfied_;                                      // γ where an edge is not satisfied
    const std::int32_t *above_ = nullptr, *slots_ = nullptr;  // of the next step that closes
};

// ---- a chunk of trees -----------------------------------------------------------------------------

// What a step costs by itself matters less the more rows walk together, up to four groups; but φ should stay in a
// cache.
constexpr std::size_t kMaxPhiDoubles = std::size_t{1} << 18;

template <class Lanes>
bool walk_tree(const SetProgram& program, const SetTree& tree, const Chunk& chunk, const SetMemory<Lanes>& memory,
               Patience& patience) {
    bool goes_on = true;
    const Rule& rule = program.rules.at(tree.n_points);
    const int n_tiles = (tree.n_points + kMostPoints - 1) / kMostPoints;
    for (int tile = 0; tile < n_tiles && goes_on; ++tile) {
        const int first = tree.n_points * tile / n_tiles, end = tree.n_points * (tile + 1) / n_tiles;
        with_block_points(end - first, [&]<int K>() {
            if constexpr (K <= kMostPoints) {
                const BlockPoints<K> points(rule, first, end - first);
                goes_on = SetWalk<Lanes, K>(program, tree, chunk, points, memory).run(patience);
            }
        });
    }
    return goes_on;
}

// Subsets get their shares, a set's own after those of larger sets, which come later: each gives what it had.
void give_shares(const SetChunk& chunk, std::size_t phi_rows, double* phi) {
    const std::size_t doubles = at(chunk.chunk->n_outputs) * phi_rows;
    for (const auto& [set, subset, share] : chunk.shares) {
        const Vec shares = broadcast(share);
        const double* const from = phi + at(set) * doubles;
        double* const to = phi + at(subset) * doubles;
        for (std::size_t i = 0; i < doubles; i += kLanes) store(to + i, fma(shares, load(from + i), load(to + i)));
    }
}

LTS_INLINE void add_unaligned(double* to, Vec a) {
    decltype(a.v) old;
    std::memcpy(&old, to, sizeof old);
    old += a.v;
    std::memcpy(to, &old, sizeof old);
}

// Adds φ of some rows to their values. Rows are turned round a square at a time where the square's sets stand
// side by side, which is everywhere in a model of one chunk and one output.
void add_to_values(const SetProgram& program, const SetChunk& chunk, const double* phi, std::size_t phi_rows,
                   std::size_t n_rows, double* values) {
    const std::size_t n_outputs = at(chunk.chunk->n_outputs), all_outputs = at(program.program->n_outputs);
    const std::size_t row_doubles = program.sets.size() * all_outputs;
    double* const first = values + chunk.chunk->output;
    for (std::size_t s = 0; s < chunk.sets.size();) {
        const auto set = at(chunk.sets[s]);
        if (all_outputs == 1 && s + kLanes <= chunk.sets.size() && at(chunk.sets[s + kLanes - 1]) == set + kLanes - 1) {
            for (std::size_t begin = 0; begin < n_rows; begin += kLanes) {
                const auto sets = columns([&](std::size_t i) LTS_INLINED { return phi + (s + i) * phi_rows + begin; });
                for (std::size_t r = 0; r < std::min<std::size_t>(kLanes, n_rows - begin); ++r)
                    add_unaligned(first + (begin + r) * row_doubles + set, sets[r]);
            }
            s += kLanes;
            continue;
        }
        for (std::size_t r = 0; r < n_rows; ++r)
            for (std::size_t o = 0; o < n_outputs; ++o)
                first[r * row_doubles + set * all_outputs + o] += phi[(s * n_outputs + o) * phi_rows + r];
        ++s;
    }
}

template <class Lanes, class Number>
bool explain_rows(const SetProgram& program, const SetChunk& set_chunk, const RowsView& rows, const Worker& worker,
                  double* values) {
    Workspace& work = worker.workspace();
    Patience patience{worker};
    constexpr std::size_t group_rows = In<Lanes>::kLanes;
    const Chunk& chunk = *set_chunk.chunk;
    const std::size_t phi_doubles = set_chunk.sets.size() * at(chunk.n_outputs) * group_rows;
    const std::size_t row_doubles = program.sets.size() * at(program.program->n_outputs);
    const std::size_t most_groups = std::clamp<std::size_t>(kMaxPhiDoubles / std::max<std::size_t>(1, phi_doubles), 1,
                                                            PathEdge<Lanes>::kMostGroups);
    int n_levels = 0;
    for (const auto& tree : set_chunk.trees) n_levels = std::max(n_levels, tree.n_levels);
    const std::size_t edge_doubles = at(place_below(n_levels, 0)) * sizeof(PathEdge<Lanes>) / sizeof(double) + 4;
    double* const stack =
        work.stack.reserve((edge_doubles + 7) / 8 * 8 + SetWalk<Lanes, kMostPoints>::stack_doubles(
                                                            n_levels, chunk.n_outputs, static_cast<int>(most_groups)));
    auto* const x = reinterpret_cast<Number*>(work.x.reserve(chunk.columns.size() * kBlockRows));
    double* const phi = work.phi.reserve(most_groups * phi_doubles);
    std::uint64_t* const left = work.words.reserve(chunk.conditions.size() + 1);
    const auto* const data = static_cast<const Number*>(rows.data);
    for (std::size_t block = 0; block < rows.n_rows; block += kBlockRows) {
        const std::size_t n_rows = std::min<std::size_t>(kBlockRows, rows.n_rows - block);
        transpose_block(*program.program, chunk, data + block * at(program.program->n_columns), n_rows, x);
        answer<kBlockRows>(*program.program, chunk.conditions, x, 0, 1, left);
        for (std::size_t first = 0; first < n_rows; first += most_groups * group_rows) {
            const std::size_t n_groups = std::min(most_groups, (n_rows - first + group_rows - 1) / group_rows);
            const std::size_t phi_rows = n_groups * group_rows;
            std::fill_n(phi, n_groups * phi_doubles, 0.0);
            const SetMemory<Lanes> memory{left,
                                          static_cast<int>(first),
                                          static_cast<int>(n_groups),
                                          phi,
                                          reinterpret_cast<PathEdge<Lanes>*>(stack),
                                          stack + (edge_doubles + 7) / 8 * 8};
            for (const auto& tree : set_chunk.trees)
                if (!walk_tree<Lanes>(program, tree, chunk, memory, patience)) return false;
            give_shares(set_chunk, phi_rows, phi);
            add_to_values(program, set_chunk, phi, phi_rows, std::min(phi_rows, n_rows - first),
                          values + (block + first) * row_doubles);
        }
    }
    return true;
}

bool explain(const SetProgram& program, const SetChunk& chunk, const RowsView& rows, const Worker& worker,
             double* values) {
    const auto run = [&]<class Lanes>() {
        return program.program->is_float32 ? explain_rows<Lanes, float>(program, chunk, rows, worker, values)
                                           : explain_rows<Lanes, double>(program, chunk, rows, worker, values);
    };
    return rows.n_rows <= kLanes ? run.template operator()<Vec>() : run.template operator()<Pair>();
}

}  // namespace

extern const SetKernel set_kernel;
const SetKernel set_kernel{explain};

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
