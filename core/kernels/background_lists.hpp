// Kinds of rows, and which kinds of background rows are alive beside each.
//
// All lists are written before the first is read: a number is not at hand at once if the vector that it was written
// with lies across others. And the shortest are read first, since how many turns a loop takes is hard to foretell.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/background_bottom.hpp"
#include "kernels/background_kernel.hpp"
#include "kernels/isa.hpp"
#include "kernels/simd.hpp"
#include "run/buffer.hpp"

LTS_BEGIN_ISA
namespace linear_treeshap::LTS_ISA {

class AliveLists {
  public:
    struct List {
        std::uint32_t kind, run;  // of rows, and which run of those that are paid together it is of
        std::uint32_t begin, n;
    };

    bool is_full() const { return n_alive_ >= kAliveAtOnce; }
    std::span<const std::uint32_t> alive(const List& list) const { return {alive_ + list.begin, list.n}; }

    // Those of the background whose sets, of n_words words, do not meet those of a kind of rows.
    const List& add(const Side& rows, std::size_t kind, const Side& background, std::size_t n_words, std::size_t run) {
        std::uint32_t* const to = alive_ + n_alive_;
        std::size_t n = list_disjoint(background.sets(0), background.kinds.n, rows.sets(0)[kind], to);
        for (std::size_t word = 1; word < n_words; ++word) {
            const std::size_t n_before = std::exchange(n, 0);
            for (std::size_t i = 0; i < n_before; ++i) {
                const std::uint32_t z = to[i];
                to[n] = z;
                n += (background.sets(word)[z] & rows.sets(word)[kind]) == 0;
            }
        }
        lists_.push_back({static_cast<std::uint32_t>(kind), static_cast<std::uint32_t>(run),
                          static_cast<std::uint32_t>(n_alive_), static_cast<std::uint32_t>(n)});
        n_alive_ += n;
        return lists_.back();
    }

    template <class Visit>
    void for_each(const Visit& visit) {
        if (lists_.size() < kLengths) {  // too few to be worth while
            for (const auto& list : lists_) visit(list);
            return;
        }
        std::array<std::uint32_t, kLengths + 1> begin{};
        for (const auto& list : lists_) ++begin[length_of(list) + 1];
        for (std::size_t i = 1; i <= kLengths; ++i) begin[i] += begin[i - 1];
        sorted_.resize(lists_.size());
        for (const auto& list : lists_) sorted_[begin[length_of(list)]++] = list;
        for (const auto& list : sorted_) visit(list);
    }

    void clear() {
        lists_.clear();
        n_alive_ = 0;
    }

  private:
    static constexpr std::size_t kAliveAtOnce = std::size_t{1} << 11;
    static constexpr std::size_t kLengths = 32;  // told from each other

    static std::size_t length_of(const List& list) { return std::min<std::size_t>(list.n, kLengths - 1); }

    PageBuffer<std::uint32_t> buffer_;
    std::uint32_t* const alive_ = buffer_.reserve(kAliveAtOnce + kScanBackground + 16);
    std::size_t n_alive_ = 0;
    std::vector<List> lists_, sorted_;
};

}  // namespace linear_treeshap::LTS_ISA
LTS_END_ISA
