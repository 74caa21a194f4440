// Leaves that are in no table: rows beside background rows, for as long as the two have not met.
//
// At a node each row has α, the set of players of the path that it fails, and each background row has β. A pair counts
// where the two do not meet, and what has met has met further down as well. So the walk goes down with, for each row,
// the background rows it has not met, a bit each: an edge that the row fails takes those away that fail it too, in one
// operation for several rows and 64 background rows. Where none are left, nobody goes on.
//
// Few are left near the leaves, and many of these are alike there. So before a small subtree, a bottom, everyone is
// counted: background rows that have the same β and go the same way through the bottom become one with their weights
// added up, and so do rows with the same α (background_bottom.hpp). What the leaves of a bottom give to a pair of kinds
// depends on little: the way of either through it, and how many players above it are in α and in β. So the leaves are
// added up once for all pairs that have these in common, and a pair pays all players of the path at once, one vector
// after another. At the end every row gets what its kind was paid.
//
// A row's bits do not depend on the rows beside it: it meets the background rows in their own order, and those that are
// alike are either all alive beside it or none.

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <utility>
#include <vector>

#include "kernels/add_columns.hpp"
#include "kernels/background_bottom.hpp"
#include "kernels/background_kernel.hpp"
#include "kernels/background_lists.hpp"
#include "kernels/isa.hpp"
#include "kernels/simd.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {
namespace {

constexpr std::size_t kWorkAtOnce = std::size_t{1} << 14;  // players of leaves for a block of rows: some milliseconds

struct alignas(64) Words : std::array<std::uint64_t, kBlockRows> {};

std::uint64_t first_rows(std::size_t n) { return n == 0 ? 0 : ~std::uint64_t{0} >> (kBlockRows - n); }
constexpr std::size_t in_eights(std::size_t n) { return (n + 7) / 8 * 8; }

// Two crowds that go down together, and who is alive beside whom.
class Walk {
  public:
    Crowd rows, background;
    std::size_t depth = 0;

    std::uint64_t live(std::size_t block) const { return live_[depth][block]; }  // rows that anyone is alive beside
    std::uint64_t alive_beside_anyone(std::size_t background_block) const {
        std::uint64_t any = 0;
        for (std::size_t b = 0; b < rows.blocks; ++b)
            for (const auto word : alive_[depth].data()[background_block * rows.blocks + b]) any |= word;
        return any;
    }

    // At the root everyone is alive.
    void begin(std::size_t n_words) {
        make_room(0);
        rows.begin(n_words);
        background.begin(n_words);
        for (std::size_t b = 0; b < rows.blocks; ++b) {
            live_[0][b] = first_rows(std::min<std::size_t>(kBlockRows, rows.n - b * kBlockRows));
            for (std::size_t zb = 0; zb < background.blocks; ++zb) {
                const std::size_t n = std::min<std::size_t>(kBlockRows, background.n - zb * kBlockRows);
                for (std::size_t lane = 0; lane < kBlockRows; ++lane)
                    alive_[0].data()[zb * rows.blocks + b][lane] = b * kBlockRows + lane < rows.n ? first_rows(n) : 0;
            }
        }
    }

    // Goes over an edge of the player at a place. Returns false, and stays, if nobody is alive beyond it.
    bool descend(std::size_t place, std::int32_t edge) {
        make_room(depth + 1);
        auto& live = live_[depth + 1];
        const Words* const here = alive_[depth].data();
        Words* const beyond = alive_[depth + 1].data();
        std::fill(live.begin(), live.end(), 0);
        for (std::size_t zb = 0; zb < background.blocks; ++zb) {
            const std::uint64_t satisfied = background.satisfied(zb, edge);
            for (std::size_t b = 0; b < rows.blocks; ++b) {
                const std::size_t i = zb * rows.blocks + b;
                live[b] |= keep(here[i].data(), rows.satisfied(b, edge), satisfied, beyond[i].data());
            }
        }
        if (std::all_of(live.begin(), live.end(), [](std::uint64_t word) { return word == 0; })) return false;
        rows.descend(depth, place, edge);
        background.descend(depth, place, edge);
        ++depth;
        return true;
    }

  private:
    void make_room(std::size_t to) {
        if (to >= alive_.size()) alive_.resize(to + 1), live_.resize(to + 1);
        alive_[to].reserve(rows.blocks * background.blocks);
        live_[to].resize(rows.blocks);
    }
    std::vector<PageBuffer<Words>> alive_;          // [depth][block of background rows][block]
    std::vector<std::vector<std::uint64_t>> live_;  // [depth][block]
};

class Scan {
  public:
    Scan(const Chunk& chunk, const Tree& tree, const BackgroundTree& plan, const Moments& moments,
         const RowPairs& row_pairs, const Worker& worker)
        : chunk_(chunk),
          tree_(tree),
          plan_(plan),
          moments_(moments),
          n_outputs_(at(chunk.n_outputs)),
          row_pairs_(row_pairs),
          worker_(worker),
          n_places_(in_eights(at(plan.n_players_on_path))),
          place_(at(tree.n_splits)) {
        // Words of an edge side by side: the walk meets edges here and there, and asks all blocks at each.
        const std::size_t n_edges = 2 * at(tree.n_splits);
        std::uint64_t* words = worker.workspace().words.reserve(
            n_edges * (n_blocks(row_pairs_.n_rows) + n_blocks(row_pairs_.n_background)));
        const auto fill = [&](Crowd& crowd, std::size_t n, const std::uint64_t* by_block) {
            crowd.n = n;
            crowd.blocks = n_blocks(n);
            crowd.words = words;
            for (std::size_t b = 0; b < crowd.blocks; ++b, by_block += row_pairs_.words_per_block)
                for (std::size_t edge = 0; edge < n_edges; ++edge) words[edge * crowd.blocks + b] = by_block[edge];
            words += n_edges * crowd.blocks;
        };
        fill(walk_.rows, row_pairs_.n_rows, row_pairs_.row_words);
        fill(walk_.background, row_pairs_.n_background, row_pairs_.background_words);
        walk_.begin(n_set_words(at(plan.n_players_on_path)));
        is_of_pairs() ? reserve_pairs() : reserve_players();
    }

    // From left to right over the leaves, with the players of the path at hand. Returns false if the work must stop.
    bool run() {
        struct Visit {
            std::int32_t split;
            int side;  // to be visited next
        };
        std::vector<Visit> pending;
        const auto visit = [&](std::int32_t node) {
            if (is_bottom(node)) {
                visit_bottom(node);
                if (walk_.depth > 0) --walk_.depth;
            } else {
                enter(node);
                pending.push_back({node, 0});
            }
        };
        visit(0);
        while (!pending.empty()) {
            const auto [split, side] = pending.back();
            if (side == 2) {
                leave(split);
                pending.pop_back();
                continue;
            }
            ++pending.back().side;
            const std::size_t place = place_[at(split)];
            const std::int32_t edge = edge_[place] = 2 * split + side;
            const auto child = plan_.scan_child[at(edge)];
            if (child == kNothing || !walk_.descend(place, edge)) continue;
            visit(child);
            if (work_ < kWorkAtOnce) continue;
            work_ = 0;
            if (!worker_.advance(0)) return false;
        }
        return worker_.advance(0);
    }

  private:
    bool is_of_pairs() const { return row_pairs_.pairs != nullptr; }
    bool is_weighted_by_pair() const { return row_pairs_.weights_per_row != 0; }
    // Pairs of players meet at leaves only.
    bool is_bottom(std::int32_t node) const {
        return node < 0 || (!is_of_pairs() && at(plan_.n_splits_below[at(node)]) <= kBottomSplits);
    }

    void enter(std::int32_t split) {
        const auto above = tree_[split].above;
        place_[at(split)] = above < 0 ? edge_.size() : place_[at(above / 2)];
        if (above < 0) edge_.push_back(-1);
    }

    void leave(std::int32_t split) {
        const auto above = tree_[split].above;
        const std::size_t place = place_[at(split)];
        if (above < 0) {
            if (is_of_pairs()) flush_pairs(place);
            edge_.pop_back();
        } else {
            edge_[place] = above;
        }
        if (walk_.depth > 0) --walk_.depth;
    }
    std::int32_t player_at(std::size_t place) const { return tree_[edge_[place] / 2].player; }
    double* phi_of(std::size_t slot, std::size_t row) const {
        return row_pairs_.phi + block_of(row) * row_pairs_.phi_per_block + slot * kBlockRows + lane_of(row);
    }

    // -- bottoms ---------------------------------------------------------------------------------------

    // Counts those that are alive before a subtree, a split or ~leaf, and pays whom its leaves speak of.
    void visit_bottom(std::int32_t node) {
        n_above_ = edge_.size();
        bottom_.begin(tree_, plan_, node, n_above_, [&](std::int32_t edge) { return place_[at(edge / 2)]; });
        rows_.begin(walk_.rows, walk_.depth, n_above_, bottom_, !is_weighted_by_pair() && !is_of_pairs(),
                    [&](std::size_t block) { return walk_.live(block); });
        background_.begin(walk_.background, walk_.depth, n_above_, bottom_, !is_weighted_by_pair(),
                          [&](std::size_t block) { return walk_.alive_beside_anyone(block); });
        weigh();
        work_ += bottom_.leaves().size() * n_above_ * walk_.rows.blocks;
        if (is_of_pairs()) {
            for (std::size_t kind = 0; kind < rows_.kinds.n; ++kind)
                for (std::size_t o = 0; o < n_outputs_; ++o) pay_pairs(bottom_.leaves()[0].leaf, kind, o);
        } else {
            pay_players();
        }
    }

    void weigh() {
        weight_.assign(background_.kinds.n, is_weighted_by_pair() ? 1.0 : 0.0);
        if (is_weighted_by_pair()) return;
        for (const std::uint32_t z : background_.kinds.there())
            weight_[background_.kinds.number[z] - 1] += row_pairs_.weights == nullptr ? 1.0 : row_pairs_.weights[z];
    }

    // The kinds of background rows that are alive beside a kind of rows.
    const AliveLists::List& list_alive(std::size_t kind, std::size_t run) {
        return lists_.add(rows_, kind, background_, n_set_words(n_above_), run);
    }

    // -- players ---------------------------------------------------------------------------------------

    // What a leaf gives, in eight lanes: to each player of β above the bottom, to each of α above it, and to the
    // players of edges inside, each edge for itself.
    static constexpr std::size_t kToBeta = 0, kToAlpha = 1, kToEdges = 2, kGiven = 8;
    static_assert(kToEdges + kBottomEdges <= kGiven);
    static constexpr std::size_t kKindsAlone = 128;  // too few for what all classes are given, measured
    static constexpr std::size_t kRunsAtOnce = 8;    // for most states, all of them
    static constexpr std::size_t kClassGiven = kRunsAtOnce * kGiven;

    void reserve_players() {
        // Players of the path, and of a bottom, in whole vectors; on long paths in whole words of sets.
        const std::size_t n = at(plan_.n_players_on_path) + kBottomSplits;
        paid_stride_ = n > kSetPlayers ? n_set_words(n) * kSetPlayers : in_eights(n);
        const std::size_t n_kinds = walk_.rows.blocks * kBlockRows + 1;
        const std::size_t n_classes = walk_.background.blocks * kBlockRows;
        paid_ = worker_.workspace().stack.reserve((n_kinds + kBottomSplits) * paid_stride_ + n_classes * kClassGiven);
        std::fill_n(paid_, paid_stride_, 0.0);
        split_is_at_ = paid_ + n_kinds * paid_stride_;
        std::fill_n(split_is_at_, kBottomSplits * paid_stride_, 0.0);
        given_ = split_is_at_ + kBottomSplits * paid_stride_;
    }

    void pay_players() {
        const bool is_alone = rows_.kinds.n <= kKindsAlone;
        if (!is_alone) sort_rows(), classify();
        put_splits(1.0);
        for (std::size_t o = 0; o < n_outputs_; ++o) {
            value_.clear();
            for (const auto& leaf : bottom_.leaves())
                value_.push_back(row_pairs_.scale * chunk_.values_of(leaf.leaf)[o]);
            is_alone ? pay_alone() : pay_runs();
            hand_out(o);
        }
        put_splits(0.0);
    }
    void put_splits(double number) {
        for (std::size_t i = 0; i < bottom_.n_splits; ++i) split_is_at_[i * paid_stride_ + bottom_.place[i]] = number;
    }
    void pay_runs() {
        for (std::size_t i = 0; i < runs_.size(); ++i) {
            together_[n_together_++] = &runs_[i];
            if (n_together_ == kRunsAtOnce || i + 1 == runs_.size() || runs_[i + 1].state != runs_[i].state)
                pay_together();
        }
    }

    // Which edges inside are failed is a state; those that occur are numbered.
    class States {
      public:
        explicit States(const std::vector<std::uint32_t>& states) {
            for (const auto state : states) occur_ |= std::uint64_t{1} << state;
        }
        std::size_t size() const { return at(std::popcount(occur_)); }
        std::size_t number(std::uint32_t state) const {
            return at(std::popcount(occur_ & ((std::uint64_t{1} << state) - 1)));
        }
        template <class Visit>
        void for_each(const Visit& visit) const {
            for (auto left = occur_; left != 0; left &= left - 1)
                visit(static_cast<std::uint32_t>(std::countr_zero(left)));
        }

      private:
        static_assert(kBottomEdges <= 6);
        std::uint64_t occur_ = 0;
    };

    // Kinds of rows that are given the same: of a state, and as many players that they fail above.
    struct Run {
        std::uint32_t state;
        int n_failed;
        std::size_t begin, end;  // in order_
    };
    void sort_rows() {
        const States states(rows_.failed);
        const std::size_t n_kinds = rows_.kinds.n;
        bucket_.assign(states.size() * (n_above_ + 1), 0);
        bucket_of_.resize(n_kinds);
        for (std::size_t kind = 0; kind < n_kinds; ++kind) {
            bucket_of_[kind] = states.number(rows_.failed[kind]) * (n_above_ + 1) + rows_.n_failed[kind];
            ++bucket_[bucket_of_[kind]];
        }
        runs_.clear();
        std::size_t begin = 0, next = 0;
        states.for_each([&](std::uint32_t state) {
            for (std::size_t q = 0; q <= n_above_; ++q, ++next) {
                const std::size_t end = begin + bucket_[next];
                if (begin != end) runs_.push_back({state, static_cast<int>(q), begin, end});
                bucket_[next] = begin;
                begin = end;
            }
        });
        order_.resize(n_kinds);
        for (std::size_t kind = 0; kind < n_kinds; ++kind)
            order_[bucket_[bucket_of_[kind]]++] = static_cast<std::uint32_t>(kind);
    }

    // Likewise classes of background rows, numbered one after another by state.
    struct ClassesOfState {
        std::uint32_t state;
        std::size_t end;
    };
    void classify() {
        const States states(background_.failed);
        const std::size_t n_kinds = background_.kinds.n;
        class_number_.assign(states.size() * (n_above_ + 1), 0);
        class_of_.resize(n_kinds);
        for (std::size_t z = 0; z < n_kinds; ++z) {
            class_of_[z] = states.number(background_.failed[z]) * (n_above_ + 1) + background_.n_failed[z];
            class_number_[class_of_[z]] = 1;
        }
        class_failed_.clear();
        classes_of_.clear();
        std::size_t next = 0;
        states.for_each([&](std::uint32_t state) {
            for (std::size_t p = 0; p <= n_above_; ++p, ++next) {
                const bool is_there = class_number_[next] != 0;
                class_number_[next] = class_failed_.size();
                if (is_there) class_failed_.push_back(p);
            }
            classes_of_.push_back({state, class_failed_.size()});
        });
        for (auto& number : class_of_) number = class_number_[number] * kClassGiven;
    }

    // What a leaf gives for moments of one, if rows and background rows of two states do not meet at it.
    struct alignas(64) Meeting {
        std::array<double, kGiven> gained, lost;
        std::size_t moment;  // how much further on, for the players inside
    };
    LTS_INLINE static Vec gained_lanes(std::uint32_t edges, double value, std::size_t v) {
        return where(mask_of((1U << kToBeta | edges << kToEdges) >> (v * kLanes)), broadcast(value));
    }
    LTS_INLINE static Vec lost_lanes(std::uint32_t edges, double value, std::size_t v) {
        return where(mask_of((1U << kToAlpha | edges << kToEdges) >> (v * kLanes)), broadcast(-value));
    }

    // Runs of one state: first finds what they are given beside all classes of background rows, used or not, since
    // whether one is used is hard to foretell.
    void pay_together() {
        const std::uint32_t alpha = together_[0]->state, fresh_alpha = bottom_.fresh(alpha);
        std::size_t first = 0;
        for (const auto& [beta, end] : classes_of_) {
            const std::uint32_t fresh_beta = bottom_.fresh(beta);
            std::size_t n_meetings = 0;
            for (std::size_t l = 0; l < value_.size(); ++l) {
                const std::uint32_t edges = bottom_.leaves()[l].edges;
                if ((alpha & beta & edges) != 0) continue;
                Meeting& meeting = meeting_[n_meetings++];
                for (std::size_t v = 0; v < kGiven / kLanes; ++v) {
                    store(&meeting.gained[v * kLanes], gained_lanes(fresh_beta & edges, value_[l], v));
                    store(&meeting.lost[v * kLanes], lost_lanes(fresh_alpha & edges, value_[l], v));
                }
                meeting.moment = at(std::popcount(fresh_alpha & edges)) * moments_.n_columns() +
                                 at(std::popcount(fresh_beta & edges));
            }
            give_together<kBottomSplits + 1>(n_meetings, first, end);
            first = end;
        }
        for (std::size_t i = 0; i < n_together_; ++i)
            for (std::size_t k = together_[i]->begin; k < together_[i]->end; ++k) {
                list_alive(order_[k], i);
                if (lists_.is_full()) pay_listed<false>();
            }
        pay_listed<false>();
        n_together_ = 0;
    }
    // With a loop for each number of leaves at which they do not meet.
    template <std::size_t kMeetings>
    void give_together(std::size_t n_meetings, std::size_t first_class, std::size_t end_class) {
        if constexpr (kMeetings > 0)
            if (n_meetings < kMeetings) return give_together<kMeetings - 1>(n_meetings, first_class, end_class);
        const std::size_t* const n_failed = class_failed_.data();
        const Meeting* const meetings = meeting_.data();
        for (std::size_t run = 0; run < n_together_; ++run) {
            const double* const gain = moments_.gain(together_[run]->n_failed);
            const double* const loss = moments_.loss(together_[run]->n_failed);
            double* to = given_ + first_class * kClassGiven + run * kGiven;
            for (std::size_t c = first_class; c < end_class; ++c, to += kClassGiven) {
                std::array<Vec, kGiven / kLanes> given;
                given.fill(broadcast(0.0));
                for (std::size_t i = 0; i < kMeetings; ++i) {
                    const std::size_t moment = n_failed[c] + meetings[i].moment;
                    const Vec gains = broadcast(gain[moment]), losses = broadcast(loss[moment]);
                    for (std::size_t v = 0; v < given.size(); ++v)
                        given[v] = fma(gains, load(&meetings[i].gained[v * kLanes]),
                                       fma(losses, load(&meetings[i].lost[v * kLanes]), given[v]));
                }
                for (std::size_t v = 0; v < given.size(); ++v) store(to + v * kLanes, given[v]);
            }
        }
    }

    // The same for each kind, beside those alone that are alive.
    void pay_alone() {
        for (std::size_t kind = 0; kind < rows_.kinds.n; ++kind) {
            list_alive(kind, 0);
            if (lists_.is_full()) pay_listed<true>();
        }
        pay_listed<true>();
    }
    // With a loop for each number of leaves. Where two meet, zeros are added: whether they do is hard to foretell.
    template <std::size_t kLeaves = kBottomSplits + 1>
    void give_alone(const AliveLists::List& list) {
        if constexpr (kLeaves > 1)
            if (value_.size() < kLeaves) return give_alone<kLeaves - 1>(list);
        const std::size_t kind = list.kind;
        std::array<std::uint32_t, kLeaves> edges;
        std::array<double, kLeaves> value;
        std::array<const double*, kLeaves> gain, before_loss;  // which begin with zeros
        std::array<std::array<Vec, kGiven / kLanes>, kLeaves> lost;
        for (std::size_t l = 0; l < kLeaves; ++l) {
            edges[l] = bottom_.leaves()[l].edges;
            value[l] = value_[l];
            const std::uint32_t fresh = rows_.fresh[kind] & edges[l];
            const int q = static_cast<int>(rows_.n_failed[kind]) + std::popcount(fresh);
            gain[l] = moments_.gain(q), before_loss[l] = moments_.loss(q) - 1;
            for (std::size_t v = 0; v < kGiven / kLanes; ++v) lost[l][v] = lost_lanes(fresh, value[l], v);
        }
        const std::uint32_t alpha = rows_.failed[kind];
        const std::uint32_t *const betas = background_.failed.data(), *const fresh_betas = background_.fresh.data();
        const std::uint32_t* const n_failed = background_.n_failed.data();
        double* to = given_;
        for (const auto z : lists_.alive(list)) {
            const std::uint32_t met = alpha & betas[z], fresh = fresh_betas[z];
            const std::size_t p_above = n_failed[z];
            std::array<Vec, kGiven / kLanes> given;
            given.fill(broadcast(0.0));
            for (std::size_t l = 0; l < kLeaves; ++l) {
                const std::size_t p = p_above + at(std::popcount(fresh & edges[l]));
                const std::size_t if_apart = std::size_t{(met & edges[l]) != 0} - 1;  // no bit, or all
                const Vec gains = broadcast(gain[l][p & if_apart]);
                const Vec losses = broadcast(before_loss[l][(p + 1) & if_apart]);
                for (std::size_t v = 0; v < given.size(); ++v)
                    given[v] =
                        fma(gains, gained_lanes(fresh & edges[l], value[l], v), fma(losses, lost[l][v], given[v]));
            }
            for (std::size_t v = 0; v < given.size(); ++v) store(to + v * kLanes, given[v]);
            to += kGiven;
        }
    }

    // Pays the kinds that are listed. kIsAlone: what is given is found for each of them, and is not that of classes.
    template <bool kIsAlone>
    void pay_listed() {
        is_weighted_by_pair() ? pay_listed<kIsAlone, true>() : pay_listed<kIsAlone, false>();
        lists_.clear();
    }
    template <bool kIsAlone, bool kByPair>
    void pay_listed() {
        bottom_.n_players <= 8    ? pay_listed<8, kIsAlone, kByPair>()
        : bottom_.n_players <= 16 ? pay_listed<16, kIsAlone, kByPair>()
        : bottom_.n_players <= 24 ? pay_listed<24, kIsAlone, kByPair>()
                                  : pay_listed<32, kIsAlone, kByPair>();
    }
    template <int kPlayers, bool kIsAlone, bool kByPair>
    void pay_listed() {
        lists_.for_each([&](const AliveLists::List& list) LTS_INLINED {
            if constexpr (kIsAlone) give_alone(list);
            pay<kPlayers, kIsAlone, kByPair>(list);
        });
    }

    // Pays the players of the path and of the bottom, up to kPlayers at once, what they have with a kind of rows.
    // kByPair: each pair of a row and a background row has a weight of its own.
    template <int kPlayers, bool kIsAlone, bool kByPair>
    LTS_INLINE void pay(const AliveLists::List& list) {
        constexpr std::size_t n = kPlayers / kLanes;
        const std::size_t kind = list.kind;
        const std::span<const std::uint32_t> alive = lists_.alive(list);
        const double* const all_given = given_ + list.run * kGiven;
        const double* const by_pair =
            kByPair ? row_pairs_.weights + rows_.kinds.member[kind] * row_pairs_.weights_per_row : nullptr;
        alignas(64) std::array<double, kGiven> own;
        for (std::size_t word = 0; word < n_set_words(bottom_.n_players); ++word) {
            const std::uint32_t* const betas = background_.sets(word);
            std::array<Vec, n> sum;
            std::array<Vec, kGiven / kLanes> given;
            sum.fill(broadcast(0.0));
            given.fill(broadcast(0.0));
            for (std::size_t i = 0; i < alive.size(); ++i) {
                const std::uint32_t z = alive[i], beta = betas[z];
                const double* const from = all_given + (kIsAlone ? i * kGiven : class_of_[z]);
                const double weight = kByPair ? by_pair[background_.kinds.member[z]] : weight_[z];
                for (std::size_t v = 0; v < given.size(); ++v)
                    given[v] = fma(broadcast(weight), load(from + v * kLanes), given[v]);
                const Vec gained = broadcast(weight * from[kToBeta]);
                for (std::size_t v = 0; v < n; ++v) sum[v] = add_where(mask_of(beta >> (v * kLanes)), sum[v], gained);
            }
            for (std::size_t v = 0; v < given.size(); ++v) store(&own[v * kLanes], given[v]);
            const std::uint32_t alpha = rows_.sets(word)[kind];
            const Vec lost = broadcast(own[kToAlpha]);
            for (std::size_t v = 0; v < n; ++v) sum[v] = add_where(mask_of(alpha >> (v * kLanes)), sum[v], lost);
            const double* is_there = split_is_at_ + word * kSetPlayers;
            for (std::size_t i = 0; i < bottom_.n_splits; ++i, is_there += paid_stride_) {
                const Vec due = broadcast(own[kToEdges + 2 * i] + own[kToEdges + 2 * i + 1]);
                for (std::size_t v = 0; v < n; ++v) sum[v] = fma(due, load(is_there + v * kLanes), sum[v]);
            }
            double* const to = paid_to(kind + 1) + word * kSetPlayers;
            for (std::size_t v = 0; v < n; ++v) store(to + v * kLanes, sum[v]);
        }
    }

    double* paid_to(std::size_t number) const { return paid_ + number * paid_stride_; }

    // Every row gets what its kind was paid; those that are not there get what nobody was paid.
    void hand_out(std::size_t output) {
        slot_.resize(bottom_.n_players);
        const auto slot_of = [&](std::int32_t player) { return at(player) * n_outputs_ + output; };
        for (std::size_t place = 0; place < n_above_; ++place) slot_[place] = slot_of(player_at(place));
        for (std::size_t i = 0; i < bottom_.n_splits; ++i)
            slot_[bottom_.place[i]] = slot_of(tree_[bottom_.split[i]].player);
        for (std::size_t b = 0; b < walk_.rows.blocks; ++b)
            for (std::size_t first = 0; first < slot_.size(); first += kLanes)
                hand_out(b, first, std::min<std::size_t>(kLanes, slot_.size() - first));
    }
    void hand_out(std::size_t block, std::size_t first_place, std::size_t n_places) const {
        const std::uint64_t live = walk_.live(block);
        const std::uint32_t* const number = &rows_.kinds.number[block * kBlockRows];
        const double* const from = paid_ + first_place;
        const std::size_t stride = paid_stride_;
        std::array<double*, kLanes> to;
        for (std::size_t i = 0; i < n_places; ++i) to[i] = phi_of(slot_[first_place + i], block * kBlockRows);
        for (std::size_t group = 0; group < kBlockRows && live >> group != 0; group += kLanes) {
            if ((live >> group & ((1U << kLanes) - 1)) == 0) continue;
            add_columns(
                n_places, [&](std::size_t i) LTS_INLINED { return from + number[group + i] * stride; },
                [&](std::size_t i) LTS_INLINED { return to[i] + group; });
        }
    }

    // -- pairs of players ------------------------------------------------------------------------------

    void list(const Side& side, std::size_t kind, std::vector<std::size_t>& places) const {
        places.clear();
        for (std::size_t word = 0; word < n_set_words(n_above_); ++word)
            for (std::uint32_t set = side.sets(word)[kind]; set != 0; set &= set - 1)
                places.push_back(word * kSetPlayers + static_cast<std::size_t>(std::countr_zero(set)));
    }

    // As `pay`, for pairs of players of the path. Here every row is a kind of its own.
    void pay_pairs(std::int32_t leaf, std::size_t kind, std::size_t output) {
        const double value = row_pairs_.scale * chunk_.values_of(leaf)[output];
        double* const grid = paid_pairs(output, rows_.kinds.member[kind]);
        const auto pair = [&](std::size_t one, std::size_t other) -> double& {
            return grid[std::max(one, other) * n_places_ + std::min(one, other)];
        };
        crossed_.assign(edge_.size(), 0.0);  // what a player of β has with each of α
        double both_lost = 0.0;
        list(rows_, kind, alpha_);
        const auto q = static_cast<int>(alpha_.size());
        for (const auto z : lists_.alive(list_alive(kind, 0))) {
            const double share = value * weight_[z];
            list(background_, z, beta_);
            const auto p = static_cast<int>(beta_.size());
            work_ += beta_.size() * beta_.size() / kBlockRows;
            if (q >= 2) both_lost += share * moments_(p, q - 2);
            for (std::size_t i = 0; i < beta_.size(); ++i) {
                if (q >= 1) crossed_[beta_[i]] -= share * moments_(p - 1, q - 1);
                for (std::size_t j = 0; j < i; ++j) pair(beta_[i], beta_[j]) += share * moments_(p - 2, q);
            }
        }
        lists_.clear();
        for (std::size_t i = 0; i < alpha_.size(); ++i) {
            for (std::size_t other = 0; other < edge_.size(); ++other)
                if (crossed_[other] != 0.0) pair(alpha_[i], other) += crossed_[other];
            for (std::size_t j = 0; j < i; ++j) pair(alpha_[i], alpha_[j]) += both_lost;
        }
    }

    double* paid_pairs(std::size_t output, std::size_t row) const {
        return paid_ + (output * walk_.rows.blocks * kBlockRows + row) * n_places_ * n_places_;
    }

    void flush_pairs(std::size_t place) {
        for (std::size_t other = 0; other < place; ++other) {
            const auto slot = at(row_pairs_.pairs->at(player_at(place), player_at(other))) * n_outputs_;
            for (std::size_t o = 0; o < n_outputs_; ++o)
                for (std::size_t row = 0; row < row_pairs_.n_rows; ++row) {
                    double& amount = paid_pairs(o, row)[place * n_places_ + other];
                    *phi_of(slot + o, row) += amount;
                    amount = 0.0;
                }
        }
    }

    void reserve_pairs() {
        const std::size_t n = n_outputs_ * walk_.rows.blocks * kBlockRows * n_places_ * n_places_;
        paid_ = worker_.workspace().stack.reserve(n);
        std::fill_n(paid_, n, 0.0);
    }

    const Chunk& chunk_;
    const Tree& tree_;
    const BackgroundTree& plan_;
    const Moments& moments_;
    std::size_t n_outputs_;
    const RowPairs& row_pairs_;
    const Worker& worker_;
    std::size_t work_ = 0;  // since it last looked up
    std::size_t n_places_;  // on the longest path, in whole vectors
    Walk walk_;
    std::vector<std::size_t> place_;  // of each split's player on the path
    std::vector<std::int32_t> edge_;  // the last edge of each player of the path

    Bottom bottom_;
    std::size_t n_above_ = 0;  // players above the bottom
    Side rows_, background_;
    std::vector<double> weight_;  // of each kind of background rows
    AliveLists lists_;

    std::vector<std::size_t> bucket_, bucket_of_;
    std::vector<std::uint32_t> order_;  // of kinds of rows
    std::vector<Run> runs_;
    std::vector<std::size_t> class_number_;  // of each state and number of failed players
    std::vector<std::size_t> class_of_;      // by kind, where in given_
    std::vector<std::size_t> class_failed_;  // by class, players above
    std::vector<ClassesOfState> classes_of_;
    std::vector<double> value_;  // of each leaf of the bottom
    std::array<Meeting, kBottomSplits + 1> meeting_;
    std::array<const Run*, kRunsAtOnce> together_;
    std::size_t n_together_ = 0;
    double* given_ = nullptr;        // [class][run][kGiven]
    std::vector<std::size_t> slot_;  // where φ of each place lies

    double* paid_ = nullptr;         // [0 and kinds][place], or [output][row][place][place]
    double* split_is_at_ = nullptr;  // [split of the bottom][place]: 1 at that of its player, else 0
    std::size_t paid_stride_ = 0;
    std::vector<std::size_t> alpha_, beta_;  // places
    std::vector<double> crossed_;
};

}  // namespace

bool scan(const Chunk& chunk, const Tree& tree, const BackgroundTree& plan, const Moments& moments,
          const RowPairs& row_pairs, const Worker& worker) {
    return Scan(chunk, tree, plan, moments, row_pairs, worker).run();
}

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
