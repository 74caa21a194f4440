// Leaves that are in no table: rows beside background rows, for as long as the two have not met.
//
// At a node each row has α, the set of players of the path that it fails, and each background row has β. A pair counts
// where the two do not meet, and what has met has met further down as well. So the walk goes down with, for each row,
// the background rows it has not met, a bit each: an edge that the row fails takes those away that fail it too, in one
// operation for several rows and 64 background rows. Where none are left, nobody goes on.
//
// Few are left near the leaves, and many of these are alike there. So before a small subtree, a bottom, everyone is
// counted again: background rows that have the same β and go the same way through the bottom become one with their
// weights added up, and so do rows with the same α. The walk goes on with these. At a leaf, a background row pays the
// players of β and charges those of α. While leaves are visited from left to right, what the players of the current
// path have is kept by their place on it, so that a vector of them is paid at once.
//
// A row's bits do not depend on the rows beside it: it meets the background rows in their own order, and those that are
// alike are either all alive beside it or none.

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "kernels/background_kernel.hpp"
#include "kernels/conditions.hpp"
#include "kernels/isa.hpp"
#include "kernels/simd.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {
namespace {

constexpr std::size_t kWorkAtOnce = std::size_t{1} << 14;  // players of leaves for a block of rows: some milliseconds
constexpr std::size_t kSetPlayers = 32;    // players in one word of a set; longer paths have several words
constexpr std::int32_t kBottomSplits = 5;  // at most; a row is one word of the edges it satisfies
constexpr std::int32_t kBottomEdges = 2 * kBottomSplits;
static_assert(kBottomEdges <= 32);

struct alignas(64) Sets : std::array<std::uint32_t, kBlockRows> {};
struct alignas(64) Words : std::array<std::uint64_t, kBlockRows> {};

constexpr std::size_t block_of(std::size_t row) { return row / kBlockRows; }
constexpr std::size_t lane_of(std::size_t row) { return row % kBlockRows; }
std::uint64_t first_rows(std::size_t n) { return n == 0 ? 0 : ~std::uint64_t{0} >> (kBlockRows - n); }

// Rows, or background rows, on their way down: which edges they satisfy, and which players they fail at each depth.
class Crowd {
  public:
    std::size_t n = 0, blocks = 0;
    const std::uint64_t* words = nullptr;  // [block][edge]
    std::size_t words_per_block = 0;
    std::int32_t first_edge = 0;  // which `words` begin with

    std::uint64_t satisfied(std::size_t block, std::int32_t edge) const {
        return words[block * words_per_block + at(edge - first_edge)];
    }
    std::uint32_t set(std::size_t depth, std::size_t word, std::size_t row) const {
        return sets_[depth].by_word[word][block_of(row)][lane_of(row)];
    }
    const Sets* sets(std::size_t depth, std::size_t word) const { return sets_[depth].by_word[word]; }
    int n_failed(std::size_t depth, std::size_t row) const {
        int n_players = 0;
        for (std::size_t word = 0; word < sets_[depth].by_word.size(); ++word)
            n_players += std::popcount(set(depth, word, row));
        return n_players;
    }

    // Room for the sets of the first depth, which the caller fills.
    void begin(std::size_t n_words) {
        sets_of(0, n_words).own.resize(n_words * blocks);
        for (std::size_t word = 0; word < n_words; ++word) sets_[0].by_word[word] = &sets_[0].own[word * blocks];
    }
    Sets* first_sets(std::size_t word) { return &sets_[0].own[word * blocks]; }

    void descend(std::size_t depth, std::size_t place, std::int32_t edge) {
        const std::size_t word = place / kSetPlayers;
        DepthSets& to = sets_of(depth + 1, sets_[depth].by_word.size());
        const DepthSets& from = sets_[depth];
        to.own.resize(std::max(to.own.size(), blocks));
        std::copy(from.by_word.begin(), from.by_word.end(), to.by_word.begin());
        to.by_word[word] = to.own.data();
        for (std::size_t b = 0; b < blocks; ++b)
            add_player(from.by_word[word][b].data(), ~satisfied(b, edge), static_cast<int>(place % kSetPlayers),
                       to.own[b].data());
    }

  private:
    struct DepthSets {
        std::vector<Sets> own;             // of the word that changed on the way here
        std::vector<const Sets*> by_word;  // [block] each, this depth's own or one's above
    };
    DepthSets& sets_of(std::size_t depth, std::size_t n_words) {
        if (depth >= sets_.size()) sets_.resize(depth + 1);
        sets_[depth].by_word.resize(n_words);
        return sets_[depth];
    }
    std::vector<DepthSets> sets_;
};

// Two crowds that go down together, and who is alive beside whom.
class Walk {
  public:
    Crowd rows, background;
    std::size_t depth = 0;

    std::uint64_t& alive(std::size_t row, std::size_t background_block) {
        return alive_[depth][background_block * rows.blocks + block_of(row)][lane_of(row)];
    }
    std::uint64_t live(std::size_t block) const { return live_[depth][block]; }  // rows that anyone is alive beside
    void set_live(std::size_t block, std::uint64_t rows_there) { live_[depth][block] = rows_there; }
    std::uint64_t alive_beside_anyone(std::size_t background_block) const {
        std::uint64_t any = 0;
        for (std::size_t b = 0; b < rows.blocks; ++b)
            for (const auto word : alive_[depth][background_block * rows.blocks + b]) any |= word;
        return any;
    }

    void begin(std::size_t n_words) {
        depth = 0;
        make_room(0);
        rows.begin(n_words);
        background.begin(n_words);
    }

    // Goes over an edge of the player at a place. Returns false, and stays, if nobody is alive beyond it.
    bool descend(std::size_t place, std::int32_t edge) {
        make_room(depth + 1);
        auto& live = live_[depth + 1];
        std::fill(live.begin(), live.end(), 0);
        for (std::size_t zb = 0; zb < background.blocks; ++zb) {
            const std::uint64_t satisfied = background.satisfied(zb, edge);
            for (std::size_t b = 0; b < rows.blocks; ++b) {
                const std::size_t i = zb * rows.blocks + b;
                live[b] |=
                    keep(alive_[depth][i].data(), rows.satisfied(b, edge), satisfied, alive_[depth + 1][i].data());
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
        if (alive_[to].size() < rows.blocks * background.blocks) alive_[to].resize(rows.blocks * background.blocks);
        live_[to].resize(rows.blocks);
    }
    std::vector<std::vector<Words>> alive_;         // [depth][block of background rows][block]
    std::vector<std::vector<std::uint64_t>> live_;  // [depth][block]
};

// Those of a crowd that are alike before a bottom: of each kind one member, the first.
class Kinds {
  public:
    std::vector<std::uint32_t> member;  // by kind
    std::vector<std::uint32_t> kind;    // by row, of those that were added

    // `merge`: whether there are to be fewer kinds than members.
    void begin(const Crowd& from, std::size_t depth, std::size_t n_words, std::int32_t first_edge, std::int32_t n_edges,
               bool merge) {
        from_ = &from, depth_ = depth, n_words_ = n_words, n_edges_ = n_edges, merge_ = merge;
        sets_ = from.sets(depth, 0);
        member.clear();
        key_.clear();
        kind.resize(from.n);
        edges_.resize(from.blocks);
        for (std::size_t b = 0; b < from.blocks; ++b) {
            edges_[b].fill(0);
            for (std::int32_t e = 0; e < n_edges; ++e)
                add_player(edges_[b].data(), from.satisfied(b, first_edge + e), e, edges_[b].data());
        }
        if (++round_ == 0) slot_.fill({}), round_ = 1;  // a number that no slot has
    }

    // Returns whether the row is the first of its kind.
    LTS_INLINE bool add(std::size_t row) {
        const auto next = static_cast<std::uint32_t>(member.size());
        const std::uint64_t key = key_of(row);
        if (merge_) {
            std::uint64_t hash = key;
            for (std::size_t word = 1; word < n_words_; ++word) hash = hash * kSpread + from_->set(depth_, word, row);
            for (std::size_t place = (hash * kSpread) >> (64 - kSlotBits);; place = (place + 1) % slot_.size()) {
                Slot& slot = slot_[place];
                if (slot.round != round_) {
                    slot = {round_, next};
                    break;
                }
                if (key_[slot.kind] == key && have_same_rest(member[slot.kind], row)) {
                    kind[row] = slot.kind;
                    return false;
                }
            }
        }
        kind[row] = next;
        member.push_back(static_cast<std::uint32_t>(row));
        key_.push_back(key);
        return true;
    }

    // One row for each kind, before the bottom.
    void become(Crowd& to, std::int32_t first_edge) {
        to.n = member.size();
        to.blocks = n_blocks(to.n);
        to.words_per_block = at(n_edges_);
        to.first_edge = first_edge;
        words_.resize(to.blocks * to.words_per_block);
        to.words = words_.data();
        Sets edges;
        for (std::size_t b = 0; b < to.blocks; ++b) {
            const std::size_t n_there = std::min<std::size_t>(kBlockRows, to.n - b * kBlockRows);
            for (std::size_t i = 0; i < n_there; ++i) {
                const std::size_t row = member[b * kBlockRows + i];
                edges[i] = edges_[block_of(row)][lane_of(row)];
            }
            for (std::int32_t e = 0; e < n_edges_; ++e)
                words_[b * to.words_per_block + at(e)] = having(edges.data(), e);
        }
    }
    void copy_sets(Crowd& to, std::size_t n_words) const {
        for (std::size_t word = 0; word < n_words; ++word)
            for (std::size_t i = 0; i < member.size(); ++i)
                to.first_sets(word)[block_of(i)][lane_of(i)] = from_->set(depth_, word, member[i]);
    }

  private:
    static constexpr int kSlotBits = 11;
    static_assert(2 * kScanBackground <= std::size_t{1} << kSlotBits && kScanRows <= kScanBackground);
    struct Slot {
        std::uint32_t round = 0, kind = 0;
    };
    // The first word of the set, and the edges.
    std::uint64_t key_of(std::size_t row) const {
        return sets_[block_of(row)][lane_of(row)] | std::uint64_t{edges_[block_of(row)][lane_of(row)]} << 32;
    }
    bool have_same_rest(std::size_t one, std::size_t other) const {
        for (std::size_t word = 1; word < n_words_; ++word)
            if (from_->set(depth_, word, one) != from_->set(depth_, word, other)) return false;
        return true;
    }
    static constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15;
    const Crowd* from_ = nullptr;
    const Sets* sets_ = nullptr;  // their first word
    std::size_t depth_ = 0, n_words_ = 0;
    std::int32_t n_edges_ = 0;
    bool merge_ = true;
    std::vector<Sets> edges_;                 // of the bottom, that each row satisfies
    std::vector<std::uint64_t> words_, key_;  // key by kind
    std::array<Slot, std::size_t{1} << kSlotBits> slot_{};
    std::uint32_t round_ = 0;
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
          n_set_words_((at(plan.n_players_on_path) + kSetPlayers - 1) / kSetPlayers),
          n_places_((at(plan.n_players_on_path) + 7) / 8 * 8),
          place_(tree.splits.size()) {
        begin_top();
        const std::size_t n_rows = top_.rows.blocks * kBlockRows;
        touched_.resize(n_places_ * top_.rows.blocks);
        if (is_of_pairs()) {
            paid_ = worker.workspace().stack.reserve(n_outputs_ * n_rows * n_places_ * n_places_);
            std::fill_n(paid_, n_outputs_ * n_rows * n_places_ * n_places_, 0.0);
        } else {
            paid_ = worker.workspace().stack.reserve(2 * n_outputs_ * n_rows * n_places_);
            std::fill_n(paid_, 2 * n_outputs_ * n_rows * n_places_, 0.0);
            paid_to_kinds_ = paid_ + n_outputs_ * n_rows * n_places_;
        }
    }

    // From left to right over the leaves, with the players of the path at hand. Returns false if the work must stop.
    bool run() {
        struct Visit {
            std::int32_t split;
            int side;  // to be visited next
        };
        std::vector<Visit> pending{{0, 0}};
        enter(0);
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
            if (child == kNothing || !walk_->descend(place, edge)) continue;
            if (child >= 0) {
                enter(child);
                pending.push_back({child, 0});
                continue;
            }
            visit_leaf(~child);
            --walk_->depth;
            if (work_ < kWorkAtOnce) continue;
            work_ = 0;
            if (!worker_.advance(0)) return false;
        }
        return worker_.advance(0);
    }

  private:
    static constexpr std::int32_t kNoBottom = -1;
    bool is_of_pairs() const { return row_pairs_.pairs != nullptr; }
    std::size_t n_words() const { return (edge_.size() + kSetPlayers - 1) / kSetPlayers; }

    // At the root everyone is alive, and nobody has failed.
    void begin_top() {
        const auto fill = [&](Crowd& crowd, std::size_t n, const std::uint64_t* words) {
            crowd.n = n;
            crowd.blocks = n_blocks(n);
            crowd.words = words;
            crowd.words_per_block = row_pairs_.words_per_block;
        };
        fill(top_.rows, row_pairs_.n_rows, row_pairs_.row_words);
        fill(top_.background, row_pairs_.n_background, row_pairs_.background_words);
        top_.begin(n_set_words_);
        for (std::size_t word = 0; word < n_set_words_; ++word) {
            for (std::size_t b = 0; b < top_.rows.blocks; ++b) top_.rows.first_sets(word)[b].fill(0);
            for (std::size_t b = 0; b < top_.background.blocks; ++b) top_.background.first_sets(word)[b].fill(0);
        }
        for (std::size_t b = 0; b < top_.rows.blocks; ++b)
            top_.set_live(b, first_rows(std::min<std::size_t>(kBlockRows, top_.rows.n - b * kBlockRows)));
        for (std::size_t row = 0; row < top_.rows.blocks * kBlockRows; ++row)
            for (std::size_t zb = 0; zb < top_.background.blocks; ++zb) {
                const std::size_t n = std::min<std::size_t>(kBlockRows, top_.background.n - zb * kBlockRows);
                top_.alive(row, zb) = row < top_.rows.n ? first_rows(n) : 0;
            }
    }

    void enter(std::int32_t split) {
        const auto above = tree_.splits[at(split)].above;
        if (walk_ == &top_ && plan_.n_splits_below[at(split)] <= kBottomSplits) begin_bottom(split);
        place_[at(split)] = above < 0 ? edge_.size() : place_[at(above / 2)];
        if (above < 0) edge_.push_back(-1);
    }

    void leave(std::int32_t split) {
        const auto above = tree_.splits[at(split)].above;
        const std::size_t place = place_[at(split)];
        if (above < 0) {
            is_of_pairs() ? flush_pairs(place) : flush(place);
            edge_.pop_back();
        } else {
            edge_[place] = above;
        }
        if (split == bottom_root_) end_bottom();
        if (walk_->depth > 0) --walk_->depth;
    }

    // -- bottoms ---------------------------------------------------------------------------------------

    // Counts those again that are alive before a subtree: a split, or with no edges a leaf.
    void begin_bottom(std::int32_t root) {
        bottom_root_ = root;
        n_above_ = edge_.size();
        const std::int32_t n_edges = root < 0 ? 0 : 2 * plan_.n_splits_below[at(root)];
        const std::int32_t first_edge = root < 0 ? 0 : 2 * root;
        const bool is_weighted_by_pair = row_pairs_.weights_per_row != 0;
        row_kinds_.begin(top_.rows, top_.depth, n_words(), first_edge, n_edges, !is_weighted_by_pair && !is_of_pairs());
        background_kinds_.begin(top_.background, top_.depth, n_words(), first_edge, n_edges, !is_weighted_by_pair);
        for (std::size_t b = 0; b < top_.rows.blocks; ++b)
            for (std::uint64_t rows = top_.live(b); rows != 0; rows &= rows - 1)
                row_kinds_.add(b * kBlockRows + static_cast<std::size_t>(std::countr_zero(rows)));
        weight_.clear();
        for (std::size_t zb = 0; zb < top_.background.blocks; ++zb)
            for (std::uint64_t rows = top_.alive_beside_anyone(zb); rows != 0; rows &= rows - 1) {
                const std::size_t z = zb * kBlockRows + static_cast<std::size_t>(std::countr_zero(rows));
                const double weight =
                    row_pairs_.weights == nullptr || is_weighted_by_pair ? 1.0 : row_pairs_.weights[z];
                if (background_kinds_.add(z))
                    weight_.push_back(weight);
                else
                    weight_[background_kinds_.kind[z]] += weight;
            }
        row_kinds_.become(bottom_.rows, first_edge);
        background_kinds_.become(bottom_.background, first_edge);
        bottom_.begin(n_set_words_);
        row_kinds_.copy_sets(bottom_.rows, n_set_words_);
        background_kinds_.copy_sets(bottom_.background, n_set_words_);
        for (std::size_t zb = 0; zb < bottom_.background.blocks; ++zb) {
            const std::uint64_t present =
                first_rows(std::min<std::size_t>(kBlockRows, bottom_.background.n - zb * kBlockRows));
            for (std::size_t row = 0; row < bottom_.rows.blocks * kBlockRows; ++row) {
                std::uint64_t alive = row < bottom_.rows.n ? present : 0;
                for (std::size_t word = 0; word < n_words() && alive != 0; ++word)
                    alive &= disjoint(bottom_.background.first_sets(word)[zb].data(), bottom_.rows.set(0, word, row));
                bottom_.alive(row, zb) = alive;
            }
        }
        for (std::size_t b = 0; b < bottom_.rows.blocks; ++b)
            bottom_.set_live(b, first_rows(std::min<std::size_t>(kBlockRows, bottom_.rows.n - b * kBlockRows)));
        walk_ = &bottom_;
    }

    // Every row gets what its kind was paid.
    void end_bottom() {
        walk_ = &top_;
        bottom_root_ = kNoBottom;
        const std::size_t blocks = top_.rows.blocks;
        for (std::size_t b = 0; b < blocks; ++b)
            for (std::size_t place = 0; place < n_above_; ++place) touched_[place * blocks + b] |= top_.live(b);
        if (is_of_pairs()) return;
        const std::size_t n_lanes = (n_above_ + 7) / 8 * 8;
        for (std::size_t o = 0; o < n_outputs_; ++o) {
            for (std::size_t b = 0; b < blocks; ++b)
                for (std::uint64_t rows = top_.live(b); rows != 0; rows &= rows - 1) {
                    const std::size_t row = b * kBlockRows + static_cast<std::size_t>(std::countr_zero(rows));
                    const double* const from = paid_to_kind(o, row_kinds_.kind[row]);
                    double* const to = paid(o, row);
                    for (std::size_t v = 0; v < n_lanes; v += kLanes) store(to + v, load(to + v) + load(from + v));
                }
            for (std::size_t kind = 0; kind < bottom_.rows.n; ++kind) std::fill_n(paid_to_kind(o, kind), n_lanes, 0.0);
        }
    }

    // -- leaves ----------------------------------------------------------------------------------------

    void visit_leaf(std::int32_t leaf) {
        const bool is_alone = walk_ == &top_;
        if (is_alone) begin_bottom(~leaf);
        const std::size_t n_players = edge_.size();
        work_ += n_players * top_.rows.blocks;
        if (is_of_pairs()) {
            for_each_live([&](std::size_t kind) {
                for (std::size_t o = 0; o < n_outputs_; ++o) pay_pairs(leaf, kind, o);
            });
        } else {
            row_pairs_.weights_per_row == 0 ? pay_players<false>(leaf) : pay_players<true>(leaf);
        }
        if (is_alone) end_bottom();
    }

    template <class Visit>
    LTS_INLINE void for_each_live(const Visit& visit) {
        for (std::size_t b = 0; b < bottom_.rows.blocks; ++b)
            for (std::uint64_t kinds = bottom_.live(b); kinds != 0; kinds &= kinds - 1)
                visit(b * kBlockRows + static_cast<std::size_t>(std::countr_zero(kinds)));
    }
    // Lists the kinds of background rows that are alive beside a kind of rows, and their weights.
    std::size_t list_alive(std::size_t kind) {
        constexpr std::uint64_t kLast = std::uint64_t{1} << (kBlockRows - 1);  // of no rows, any
        std::size_t n = 0;
        for (std::size_t zb = 0; zb < bottom_.background.blocks; ++zb) {
            std::uint64_t rows = bottom_.alive(kind, zb);
            const auto n_there = static_cast<std::size_t>(std::popcount(rows));
            // A few at a time, too many rather than too few: a branch for each would be guessed wrong as often as not.
            for (std::size_t i = 0; i < n_there; i += 4)
                for (std::size_t j = i; j < i + 4; ++j, rows &= rows - 1)
                    alive_[n + j] = static_cast<std::uint32_t>(zb * kBlockRows) +
                                    static_cast<std::uint32_t>(std::countr_zero(rows | kLast));
            n += n_there;
        }
        return n;
    }
    template <bool kByPair>
    void pay_players(std::int32_t leaf) {
        const std::size_t n_players = edge_.size();
        if (n_players > kSetPlayers) {
            for (std::size_t word = 0; word < n_words(); ++word) pay<kSetPlayers, true, kByPair>(leaf, word);
        } else {
            n_players <= 8    ? pay<8, false, kByPair>(leaf, 0)
            : n_players <= 16 ? pay<16, false, kByPair>(leaf, 0)
            : n_players <= 24 ? pay<24, false, kByPair>(leaf, 0)
                              : pay<32, false, kByPair>(leaf, 0);
        }
    }

    // What a leaf gives to kPlayers of the path, those of one word of the sets; kIsLong: there are more words. kByPair:
    // each pair of a row and a background row has a weight of its own.
    template <int kPlayers, bool kIsLong, bool kByPair>
    void pay(std::int32_t leaf, std::size_t word) {
        constexpr int n = kPlayers / kLanes;
        const double* const values = chunk_.values_of(tree_, leaf);
        const std::size_t depth = bottom_.depth, n_outputs = n_outputs_;
        const std::uint32_t* const betas = bottom_.background.sets(depth, word)->data();  // the blocks lie side by side
        const std::uint32_t* const alphas = bottom_.rows.sets(depth, word)->data();
        const double* const by_kind = weight_.data();
        const std::uint32_t* const member = background_kinds_.member.data();
        for_each_live([&](std::size_t kind) LTS_INLINED {
            std::array<Vec, n> sum;
            sum.fill(broadcast(0.0));
            double lost = 0.0;
            const std::uint32_t alpha = alphas[kind];
            const int q = kIsLong ? bottom_.rows.n_failed(depth, kind) : std::popcount(alpha);
            const double* const gain = moments_.gain(q);
            const double* const loss = moments_.loss(q);
            const double* const by_pair =
                kByPair ? row_pairs_.weights + row_kinds_.member[kind] * row_pairs_.weights_per_row : nullptr;
            const std::uint32_t* const alive_end = alive_.data() + list_alive(kind);
            for (const std::uint32_t* z = alive_.data(); z != alive_end; ++z) {
                const std::uint32_t beta = betas[*z];
                const auto p = at(kIsLong ? bottom_.background.n_failed(depth, *z) : std::popcount(beta));
                const double weight = kByPair ? by_pair[member[*z]] : by_kind[*z];
                lost += weight * loss[p];
                const Vec gained = broadcast(weight * gain[p]);
                for (int v = 0; v < n; ++v) sum[at(v)] = add_where(mask_of(beta >> (v * kLanes)), sum[at(v)], gained);
            }
            for (int v = 0; v < n; ++v)
                sum[at(v)] = add_where(mask_of(alpha >> (v * kLanes)), sum[at(v)], broadcast(-lost));
            for (std::size_t o = 0; o < n_outputs; ++o) {
                const Vec value = broadcast(row_pairs_.scale * values[o]);
                double* const to = paid_to_kind(o, kind) + word * kSetPlayers;
                for (int v = 0; v < n; ++v) store(to + v * kLanes, load(to + v * kLanes) + value * sum[at(v)]);
            }
        });
    }

    double* paid(std::size_t output, std::size_t row) const {
        return paid_ + (output * top_.rows.blocks * kBlockRows + row) * n_places_;
    }
    double* paid_to_kind(std::size_t output, std::size_t kind) const {
        return paid_to_kinds_ + (output * top_.rows.blocks * kBlockRows + kind) * n_places_;
    }
    std::int32_t player_at(std::size_t place) const { return tree_.splits[at(edge_[place] / 2)].player; }
    double* phi_of(std::size_t slot, std::size_t row) const {
        return row_pairs_.phi + block_of(row) * row_pairs_.phi_per_block + slot * kBlockRows + lane_of(row);
    }

    // The path leaves a player behind: what it was paid is added to φ.
    void flush(std::size_t place) {
        const bool is_inside = walk_ == &bottom_;
        const std::size_t blocks = top_.rows.blocks;
        for (std::size_t o = 0; o < n_outputs_; ++o) {
            for (std::size_t b = 0; b < blocks; ++b) {
                double* const phi = phi_of(at(player_at(place)) * n_outputs_ + o, b * kBlockRows);
                std::uint64_t rows = is_inside ? top_.live(b) : touched_[place * blocks + b];
                for (; rows != 0; rows &= rows - 1) {
                    const auto r = static_cast<std::size_t>(std::countr_zero(rows));
                    const std::size_t row = b * kBlockRows + r;
                    if (is_inside) {
                        phi[r] += paid_to_kind(o, row_kinds_.kind[row])[place];
                    } else {
                        phi[r] += paid(o, row)[place];
                        paid(o, row)[place] = 0.0;
                    }
                }
            }
            for (std::size_t kind = 0; is_inside && kind < bottom_.rows.n; ++kind) paid_to_kind(o, kind)[place] = 0.0;
        }
        if (!is_inside) std::fill_n(&touched_[place * blocks], blocks, 0);
    }

    // -- pairs of players ------------------------------------------------------------------------------

    void list(const Crowd& crowd, std::size_t row, std::vector<std::size_t>& places) const {
        places.clear();
        for (std::size_t word = 0; word < n_words(); ++word)
            for (std::uint32_t set = crowd.set(bottom_.depth, word, row); set != 0; set &= set - 1)
                places.push_back(word * kSetPlayers + static_cast<std::size_t>(std::countr_zero(set)));
    }

    // As `pay`, for pairs of players of the path. Here every row is a kind of its own.
    void pay_pairs(std::int32_t leaf, std::size_t kind, std::size_t output) {
        const double value = row_pairs_.scale * chunk_.values_of(tree_, leaf)[output];
        double* const grid = paid_pairs(output, row_kinds_.member[kind]);
        const auto pair = [&](std::size_t one, std::size_t other) -> double& {
            return grid[std::max(one, other) * n_places_ + std::min(one, other)];
        };
        crossed_.assign(edge_.size(), 0.0);  // what a player of β has with each of α
        double both_lost = 0.0;
        list(bottom_.rows, kind, alpha_);
        const auto q = static_cast<int>(alpha_.size());
        const std::size_t n_alive = list_alive(kind);
        for (std::size_t k = 0; k < n_alive; ++k) {
            const double share = value * weight_[alive_[k]];
            list(bottom_.background, alive_[k], beta_);
            const auto p = static_cast<int>(beta_.size());
            work_ += beta_.size() * beta_.size() / kBlockRows;
            if (q >= 2) both_lost += share * moments_(p, q - 2);
            for (std::size_t i = 0; i < beta_.size(); ++i) {
                if (q >= 1) crossed_[beta_[i]] -= share * moments_(p - 1, q - 1);
                for (std::size_t j = 0; j < i; ++j) pair(beta_[i], beta_[j]) += share * moments_(p - 2, q);
            }
        }
        for (std::size_t i = 0; i < alpha_.size(); ++i) {
            for (std::size_t other = 0; other < edge_.size(); ++other)
                if (crossed_[other] != 0.0) pair(alpha_[i], other) += crossed_[other];
            for (std::size_t j = 0; j < i; ++j) pair(alpha_[i], alpha_[j]) += both_lost;
        }
    }

    double* paid_pairs(std::size_t output, std::size_t row) const {
        return paid_ + (output * top_.rows.blocks * kBlockRows + row) * n_places_ * n_places_;
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

    const Chunk& chunk_;
    const Tree& tree_;
    const BackgroundTree& plan_;
    const Moments& moments_;
    std::size_t n_outputs_;
    const RowPairs& row_pairs_;
    const Worker& worker_;
    std::size_t work_ = 0;  // since it last looked up
    std::size_t n_set_words_;
    std::size_t n_places_;                // on the longest path, in whole vectors
    Walk top_, bottom_;                   // everyone; kinds in a bottom
    Walk* walk_ = &top_;                  // the one that goes on
    Kinds row_kinds_, background_kinds_;  // in the bottom
    std::vector<double> weight_;          // of each kind of background rows
    std::int32_t bottom_root_ = kNoBottom;
    std::size_t n_above_ = 0;                // players above the bottom
    std::vector<std::size_t> place_;         // of each split's player on the path
    std::vector<std::int32_t> edge_;         // the last edge of each player of the path
    std::vector<std::uint64_t> touched_;     // [place][block] rows that were paid
    double* paid_ = nullptr;                 // [output][row][place], or [output][row][place][place]
    double* paid_to_kinds_ = nullptr;        // [output][kind][place], in the bottom
    std::vector<std::size_t> alpha_, beta_;  // places
    std::vector<double> crossed_;
    std::array<std::uint32_t, kScanBackground + 4> alive_;
};

}  // namespace

bool scan(const Chunk& chunk, const Tree& tree, const BackgroundTree& plan, const Moments& moments,
          const RowPairs& row_pairs, const Worker& worker) {
    return Scan(chunk, tree, plan, moments, row_pairs, worker).run();
}

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
