#include "paper/tree.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace linear_treeshap::paper {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

// Walks down the tree, each node before its children, and keeps the path from the root to where it is.
class Reader {
  public:
    Reader(const EnsembleView& ensemble, std::size_t index)
        : ensemble_(ensemble), root_(static_cast<std::size_t>(ensemble.tree_offsets[index])) {
        tree_.output = ensemble.tree_output[index];
        tree_.edges.reserve(static_cast<std::size_t>(ensemble.tree_offsets[index + 1]) - root_);
    }

    Tree read() {
        struct Pending {
            std::int32_t node, parent, level;
        };
        std::vector<Pending> pending{{0, -1, 0}};
        while (!pending.empty()) {
            const auto [node, parent, level] = pending.back();
            pending.pop_back();
            while (path_.size() > at(level)) leave();
            enter(node, parent);
            const std::size_t here = root_ + at(node);
            if (ensemble_.left[here] < 0) continue;
            pending.push_back({ensemble_.right[here], node, level + 1});
            pending.push_back({ensemble_.left[here], node, level + 1});
        }
        set_degrees();
        return std::move(tree_);
    }

  private:
    struct Step {
        std::size_t edge;  // its place in the list
        double reach;      // Π w from the root down to here
        std::int32_t d;    // distinct features from the root down to here
    };

    void enter(std::int32_t node, std::int32_t parent) {
        Edge e{};
        Step step{tree_.edges.size(), 1.0, 0};
        std::size_t edge_above = 0;
        e.level = static_cast<std::int32_t>(path_.size());
        if (parent >= 0) {
            ask(e, root_ + at(parent), node);
            const double w = share(e.is_left, root_ + at(parent));
            edge_above = e.above == 0 ? 0 : path_[at(e.above)].edge;
            e.p = (e.above == 0 ? 1.0 : tree_.edges[edge_above].p) / w;
            step.reach = path_.back().reach * w;
            step.d = path_.back().d + (e.above == 0);
        }
        e.leaf = -1;
        if (ensemble_.left[root_ + at(node)] < 0) {
            e.leaf = n_leaves_++;
            e.d = step.d;
            const double* const V = ensemble_.value.data() + (root_ + at(node)) * at(ensemble_.width);
            for (std::size_t o = 0; o < at(ensemble_.width); ++o) tree_.R_empty.push_back(V[o] * step.reach);
        }
        tree_.depth = std::max(tree_.depth, e.level);
        parent_.push_back(path_.empty() ? 0 : path_.back().edge);
        above_.push_back(edge_above);
        tree_.edges.push_back(e);
        path_.push_back(step);
    }

    void ask(Edge& e, std::size_t parent, std::int32_t node) {
        e.feature = ensemble_.feature[parent];
        e.threshold = ensemble_.threshold[parent];
        e.missing_left = ensemble_.missing_left[parent];
        e.category_set = ensemble_.category_set[parent];
        e.is_left = ensemble_.left[parent] == node;
        e.above = std::exchange(last_level_[e.feature], e.level);
    }

    // w_e
    double share(bool is_left, std::size_t parent) const {
        const auto ratios =
            ensemble_.cover_ratios(root_ + at(ensemble_.left[parent]), root_ + at(ensemble_.right[parent]));
        return ratios[is_left ? 0 : 1];
    }

    void leave() {
        const Edge& e = tree_.edges[path_.back().edge];
        last_level_[e.feature] = e.above;
        path_.pop_back();
    }

    // The degree of a node is the largest of the leaves below it.
    void set_degrees() {
        auto& edges = tree_.edges;
        for (std::size_t i = edges.size(); i-- > 1;) {
            Edge& parent = edges[parent_[i]];
            parent.d = std::max(parent.d, edges[i].d);
        }
        for (std::size_t i = 1; i < edges.size(); ++i) {
            edges[i].d_parent = edges[parent_[i]].d;
            edges[i].d_above = edges[above_[i]].d;
        }
    }

    const EnsembleView& ensemble_;
    const std::size_t root_;
    Tree tree_;
    std::int32_t n_leaves_ = 0;
    std::vector<Step> path_;
    std::vector<std::size_t> parent_, above_;                      // of each edge, their places in the list
    std::unordered_map<std::int32_t, std::int32_t> last_level_{};  // of each feature on the path; 0 for none
};

}  // namespace

Tree tree_of(const EnsembleView& ensemble, std::size_t index) { return Reader(ensemble, index).read(); }

}  // namespace linear_treeshap::paper
