// GPUTreeShap behind two plain functions, for gputreeshap.py: compiled where its header is, which is not ours.
//
// In: the edges of all paths from leaves to roots, one after another, and a last one of feature -1 for each path; rows
// on the GPU. Out: values there, (n_rows, n_features + 1), or a matrix of interactions for each row. Both functions
// return milliseconds by the clock of the GPU, all that it prepares included, as a call of it always does.
#include <thrust/device_vector.h>

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

struct Rows {
    const float* numbers;
    size_t n_rows, n_features;
    __host__ __device__ float GetElement(size_t row, size_t column) const { return numbers[row * n_features + column]; }
    __host__ __device__ size_t NumRows() const { return n_rows; }
    __host__ __device__ size_t NumCols() const { return n_features; }
};

using Element = gpu_treeshap::PathElement<Between>;
// Never freed: when a program ends, the driver may be gone before it.
static auto& paths = *new thrust::device_vector<Element>;

extern "C" void set_paths(const long long* path, const long long* feature, const int* output, const float* lower,
                          const float* upper, const double* ratio, const float* value, long long n) {
    std::vector<Element> elements;
    elements.reserve(n);
    for (long long i = 0; i < n; ++i) {
        elements.emplace_back(path[i], feature[i], output[i], Between{lower[i], upper[i]}, ratio[i], value[i]);
    }
    paths = elements;
}

template <class Call>
static double milliseconds(Call call) {
    cudaEvent_t begin, end;
    cudaEventCreate(&begin), cudaEventCreate(&end);
    cudaEventRecord(begin);
    call();
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
    return milliseconds([&] { gpu_treeshap::GPUTreeShap(X, paths.begin(), paths.end(), n_outputs, begin, end); });
}

extern "C" double interactions(const float* rows, long long n_rows, long long n_features, int n_outputs, float* out) {
    const Rows X{rows, (size_t)n_rows, (size_t)n_features};
    thrust::device_ptr<float> begin(out), end(out + n_rows * (n_features + 1) * (n_features + 1) * n_outputs);
    return milliseconds(
        [&] { gpu_treeshap::GPUTreeShapInteractions(X, paths.begin(), paths.end(), n_outputs, begin, end); });
}
