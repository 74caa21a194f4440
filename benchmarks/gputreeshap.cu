// GPUTreeShap behind plain functions, for gputreeshap.py: compiled where its header is, which is not ours.
//
// In: the edges of all paths from leaves to roots, one after another, and a last one of feature -1 for each path; rows
// on the GPU. Out: values there, (n_rows, n_outputs, n_features + 1), or a matrix of interactions for each row.
// Functions return milliseconds by the clock of the GPU, all that it prepares included, as a call of it always does; -1
// if it refuses, which it does where a path has more than 31 features.
#include <thrust/device_vector.h>

#include <exception>
#include <vector>

#include "gpu_treeshap.h"

/// Values that are above one threshold and not above another one, as in our trees.
struct Between {
    float lower, upper;
    __host__ __device__ bool EvaluateSplit(float x) const { return x > lower && x <= upper; }
    __host__ __device__ void Merge(const Between& other) {
        lower = lower > other.lower ? lower : other.lower;
        upper = upper < other.upper ? upper : other.upper;
    }
};

/// The same, and codes of categories, 64 of them at most: a bit for each that goes this way.
struct Coded : Between {
    unsigned long long codes;
    __host__ __device__ bool EvaluateSplit(float x) const {
        return Between::EvaluateSplit(x) && (codes >> ((int)x & 63) & 1);
    }
    __host__ __device__ void Merge(const Coded& other) {
        Between::Merge(other);
        codes &= other.codes;
    }
};

struct Rows {
    const float* numbers;
    size_t n_rows, n_features;
    __host__ __device__ float GetElement(size_t row, size_t column) const { return numbers[row * n_features + column]; }
    __host__ __device__ size_t NumRows() const { return n_rows; }
    __host__ __device__ size_t NumCols() const { return n_features; }
};

template <class Condition>
using Paths = thrust::device_vector<gpu_treeshap::PathElement<Condition>>;
// Never freed: when a program ends, the driver may be gone before it.
static auto& between = *new Paths<Between>;
static auto& coded = *new Paths<Coded>;
static bool is_coded;

/// Without `codes` all conditions are about numbers, and cheaper.
extern "C" void set_paths(const long long* path, const long long* feature, const int* output, const float* lower,
                          const float* upper, const unsigned long long* codes, const double* ratio, const float* value,
                          long long n) {
    is_coded = codes != nullptr;
    const auto fill = [&](auto& paths, auto condition_of) {
        using Element = typename std::decay_t<decltype(paths)>::value_type;
        std::vector<Element> elements;
        elements.reserve(n);
        for (long long i = 0; i < n; ++i) {
            elements.emplace_back(path[i], feature[i], output[i], condition_of(i), ratio[i], value[i]);
        }
        paths = elements;
    };
    if (is_coded) {
        fill(coded, [&](long long i) { return Coded{{lower[i], upper[i]}, codes[i]}; });
    } else {
        fill(between, [&](long long i) { return Between{lower[i], upper[i]}; });
    }
}

/// Of `call`, which is given where the paths begin and end.
template <class Call>
static double milliseconds(Call call) {
    cudaEvent_t begin, end;
    cudaEventCreate(&begin), cudaEventCreate(&end);
    cudaEventRecord(begin);
    try {
        is_coded ? call(coded.begin(), coded.end()) : call(between.begin(), between.end());
    } catch (const std::exception&) {
        return -1;
    }
    cudaEventRecord(end);
    cudaEventSynchronize(end);
    float time = -1;
    cudaEventElapsedTime(&time, begin, end);
    cudaEventDestroy(begin), cudaEventDestroy(end);
    return cudaGetLastError() == cudaSuccess ? time : -1;
}

extern "C" double values(const float* rows, long long n_rows, long long n_features, int n_outputs, float* out) {
    const Rows X{rows, (size_t)n_rows, (size_t)n_features};
    thrust::device_ptr<float> begin(out), end(out + n_rows * (n_features + 1) * n_outputs);
    return milliseconds(
        [&](auto first, auto last) { gpu_treeshap::GPUTreeShap(X, first, last, n_outputs, begin, end); });
}

extern "C" double interactions(const float* rows, long long n_rows, long long n_features, int n_outputs, float* out) {
    const Rows X{rows, (size_t)n_rows, (size_t)n_features};
    thrust::device_ptr<float> begin(out), end(out + n_rows * (n_features + 1) * (n_features + 1) * n_outputs);
    return milliseconds(
        [&](auto first, auto last) { gpu_treeshap::GPUTreeShapInteractions(X, first, last, n_outputs, begin, end); });
}

extern "C" double against(const float* rows, long long n_rows, long long n_features, int n_outputs, float* out,
                          const float* background, long long n_background) {
    const Rows X{rows, (size_t)n_rows, (size_t)n_features};
    const Rows R{background, (size_t)n_background, (size_t)n_features};
    thrust::device_ptr<float> begin(out), end(out + n_rows * (n_features + 1) * n_outputs);
    return milliseconds([&](auto first, auto last) {
        gpu_treeshap::GPUTreeShapInterventional(X, R, first, last, n_outputs, begin, end);
    });
}
