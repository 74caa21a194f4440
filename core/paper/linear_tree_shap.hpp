// Linear TreeShap as published (Yu, Xu, Bifet and Read, 2022, arXiv 2209.08192): plain scalar code, one row at a time,
// to be read beside the paper and named as the paper names things. `linear_treeshap/paper.py` says the same in NumPy.
//
// In come the arrays of a TreeEnsemble, of which some cover reaches every node, and rows; out come Shapley values. A
// row takes O(D² + N) memory: three polynomials for every level of the path it is on, and its N values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "paper/tree.hpp"

namespace linear_treeshap::paper {

class LinearTreeShap {
  public:
    explicit LinearTreeShap(const EnsembleView& ensemble);

    const std::vector<Tree>& trees() const { return trees_; }
    std::size_t n_features() const { return n_features_; }
    std::size_t n_outputs() const { return n_outputs_; }

    // Add the values of all trees to `phi`, (n_rows, n_features, n_outputs). `poll` is called now and then, and may
    // throw.
    void explain(std::span<const double> rows, std::span<double> phi, const std::function<void()>& poll) const;

    // Does x, the row's value of the feature that the parent asks, go down edge e?
    bool satisfies(const Edge& e, double x) const;

  private:
    std::vector<Tree> trees_;
    std::vector<std::int64_t> category_offsets_;
    std::vector<std::int32_t> category_codes_;
    std::size_t width_, n_features_, n_outputs_;
};

}  // namespace linear_treeshap::paper
