// Large trees, cut into parts. A tree is the sum of its leaves, so it may be explained as several trees
// that share its leaves: each has the values of its own ones, zero for the others, and of the branches
// to the others only the beginning. Working memory then has a bound, and threads can share a tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "model/ensemble.hpp"

namespace linear_treeshap {

// A tree of more leaves is cut; its parts have between half of this and this many.
inline constexpr std::size_t kMaxTreeLeaves = 8192;

class Parts {
  public:
    Parts(const EnsembleView& ensemble, std::int64_t tree)
        : e_(ensemble), first_(ensemble.tree_offsets[static_cast<std::size_t>(tree)]) {
        const auto end = ensemble.tree_offsets[static_cast<std::size_t>(tree) + 1];
        if (static_cast<std::size_t>(end - first_) > 2 * kMaxTreeLeaves) cut(static_cast<std::size_t>(end - first_));
        roots_.push_back(0);
    }

    // The nodes at which parts begin, the tree's root last.
    const std::vector<std::int32_t>& roots() const { return roots_; }

    // The nodes from the tree's root to this one, both included.
    std::vector<std::int32_t> path_to(std::int32_t node) const {
        std::vector<std::int32_t> path{node};
        while (path.back() != 0) path.push_back(parent_[static_cast<std::size_t>(path.back())]);
        return {path.rbegin(), path.rend()};
    }

    bool begins_at(std::int32_t node) const { return !is_root_.empty() && is_root_[static_cast<std::size_t>(node)]; }

  private:
    void cut(std::size_t n_nodes) {
        parent_.assign(n_nodes, 0);
        is_root_.assign(n_nodes, false);
        std::vector<std::int32_t> depth(n_nodes, 0), order{0};  // parents before children
        for (std::size_t i = 0; i < order.size(); ++i) {
            const auto node = static_cast<std::size_t>(first_ + order[i]);
            if (e_.left[node] < 0) continue;
            for (const auto child : {e_.left[node], e_.right[node]}) {
                parent_[static_cast<std::size_t>(child)] = order[i];
                depth[static_cast<std::size_t>(child)] = depth[static_cast<std::size_t>(order[i])] + 1;
                order.push_back(child);
            }
        }
        std::vector<std::size_t> n_leaves(n_nodes, 0);  // not yet in a part
        std::size_t on_paths = 0;
        for (std::size_t i = order.size() - 1; i > 0; --i) {
            const auto node = static_cast<std::size_t>(order[i]);
            if (e_.left[static_cast<std::size_t>(first_) + node] < 0) n_leaves[node] = 1;
            if (n_leaves[node] >= kMaxTreeLeaves / 2) {
                roots_.push_back(order[i]);
                is_root_[node] = true;
                n_leaves[node] = 1;
                on_paths += static_cast<std::size_t>(depth[node]);
            }
            n_leaves[static_cast<std::size_t>(parent_[node])] += n_leaves[node];
        }
        // Every part walks the path to its root. In a tree that is mostly path, that would be all it does.
        if (2 * on_paths > n_nodes) {
            roots_.clear();
            is_root_.clear();
        }
    }

    const EnsembleView& e_;
    std::int64_t first_;
    std::vector<std::int32_t> parent_, roots_;
    std::vector<bool> is_root_;
};

}  // namespace linear_treeshap
