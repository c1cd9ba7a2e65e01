// dmlgather_dump.h: writes the operator descriptors of a DirectML program as JSON, one per line, for `dmlgather check`.
//
//     #include <DirectML.h>
//     #include <dmlgather_dump.h>
//
//     dmlgather::dump(desc, stream, DMLGATHER_PLACE);                   // in a unit test: to a stream, or to the end of a file
//     DMLGATHER_CREATE_OPERATOR(device, &desc, IID_PPV_ARGS(&created))  // in the program: calls device->CreateOperator
//
// The macro first appends the descriptor, with the file and the line of the call, to the file that the environment variable
// DMLGATHER_DUMP names. Where the variable is not set, it only calls CreateOperator. DMLGATHER_PLACE is the file and the line
// where it is written: "src/rows.cpp:12".
//
// Needs C++17 and no other file. Pointers may be null and values invalid: they are written unchanged, and `dmlgather check`
// reports them. Of an operator that dmlgather does not support, only the name or number is written. All functions are
// thread-safe; each line is written by one call.

#ifndef DMLGATHER_DUMP_H
#define DMLGATHER_DUMP_H

#if defined(_MSVC_LANG) ? _MSVC_LANG < 201703L : __cplusplus < 201703L
#error "dmlgather_dump.h needs C++17: compile with -std=c++17 (MSVC: /std:c++17)"
#endif
#if !defined(DIRECTML_H) && __has_include(<DirectML.h>)
#include <DirectML.h>
#endif
#if !defined(DIRECTML_H) && !defined(DML_TARGET_VERSION)
#error "dmlgather_dump.h needs DirectML.h: include it before, or add its folder to the include path"
#endif

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#if !defined(DML_TARGET_VERSION)  // the first edition of DirectML.h has no versions
#define DMLGATHER_DML_VERSION 0x1000
#else
#define DMLGATHER_DML_VERSION DML_TARGET_VERSION
#endif

namespace dmlgather {
namespace detail {

// A larger count is probably uninitialised memory: the array is not read, and written as empty.
constexpr unsigned longest_array = 32;

// Returns the number of an enumerator. The memory may hold any number; loading an invalid enumerator is undefined behaviour.
template <typename Enumeration>
unsigned number_of(const Enumeration& value) {
    static_assert(sizeof(Enumeration) == sizeof(unsigned), "DirectML's enumerations have 32 bits");
    unsigned number = 0;
    std::memcpy(&number, &value, sizeof(number));
    return number;
}

// Returns the length in bytes of the UTF-8 character at the start of `text`; 0 if there is none.
inline std::size_t utf8_length(std::string_view text) {
    const auto octet = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    const unsigned first = octet(0);
    const std::size_t length = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (length > text.size()) return 0;
    for (std::size_t at = 1; at < length; ++at) {
        if ((octet(at) & 0xC0) != 0x80) return 0;
    }
    const unsigned second = length > 2 ? octet(1) : 0x80;
    // Overlong forms, surrogates, and code points above U+10FFFF.
    const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
                       (first == 0xF4 && second > 0x8F);
    return wrong ? 0 : length;
}

// A writer for one JSON object.
class Line {
public:
    std::string text;

    void open(const char* name) {
        key(name);
        text += '{';
    }

    void close() { text += '}'; }

    void null(const char* name) {
        key(name);
        text += "null";
    }

    template <typename Integer>
    void number(const char* name, Integer value) {
        key(name);
        text += std::to_string(value);
    }

    template <typename Integer>
    void array(const char* name, const Integer* values, unsigned count) {
        if (values == nullptr) return null(name);
        key(name);
        text += '[';
        for (unsigned at = 0; count <= longest_array && at < count; ++at) {
            if (at > 0) text += ',';
            text += std::to_string(values[at]);
        }
        text += ']';
    }

    // Writes the name of an enumerator, or its number if it has no name.
    template <typename Enumeration, std::size_t count>
    void enumerator(const char* name, const Enumeration& value, const char* const (&names)[count]) {
        const unsigned index = number_of(value);
        if (index >= count) return number(name, index);
        string(name, names[index]);
    }

    void string(const char* name, std::string_view value) {
        key(name);
        quote(value);
    }

private:
    void key(const char* name) {
        if (!text.empty() && text.back() != '{') text += ',';
        if (name == nullptr) return;
        quote(name);
        text += ':';
    }

    void quote(std::string_view value) {
        text += '"';
        while (!value.empty()) {
            const std::size_t length = utf8_length(value);
            const char first = value.front();
            if (length == 0) {
                text += "\xEF\xBF\xBD";  // U+FFFD for a byte that is not UTF-8
            } else if (first == '"' || first == '\\') {
                text += '\\';
                text += first;
            } else if (static_cast<unsigned char>(first) < 0x20) {
                const char* const digits = "0123456789abcdef";
                text += "\\u00";
                text += digits[first >> 4];
                text += digits[first & 15];
            } else {
                text += value.substr(0, length);
            }
            value.remove_prefix(length == 0 ? 1 : length);
        }
        text += '"';
    }
};

inline void fields(Line& line, const DML_BUFFER_TENSOR_DESC& desc);

inline void tensor(Line& line, const char* name, const DML_TENSOR_DESC* desc) {
    if (desc == nullptr) return line.null(name);
    line.open(name);
    if (number_of(desc->Type) != DML_TENSOR_TYPE_BUFFER) {
        line.number("Type", number_of(desc->Type));
    } else if (desc->Desc == nullptr) {
        line.string("Type", "BUFFER");
        line.null("Desc");
    } else {
        fields(line, *static_cast<const DML_BUFFER_TENSOR_DESC*>(desc->Desc));
    }
    line.close();
}

template <typename Structure>
void structure(Line& line, const void* desc) {
    if (desc == nullptr) return line.null("desc");
    line.open("desc");
    fields(line, *static_cast<const Structure*>(desc));
    line.close();
}

// generated: from dmlgather's declarations, by ci/pages

inline constexpr const char* operator_names[] = {
    "INVALID", "ELEMENT_WISE_IDENTITY", "ELEMENT_WISE_ABS", "ELEMENT_WISE_ACOS", "ELEMENT_WISE_ADD", "ELEMENT_WISE_ASIN",
    "ELEMENT_WISE_ATAN", "ELEMENT_WISE_CEIL", "ELEMENT_WISE_CLIP", "ELEMENT_WISE_COS", "ELEMENT_WISE_DIVIDE",
    "ELEMENT_WISE_EXP", "ELEMENT_WISE_FLOOR", "ELEMENT_WISE_LOG", "ELEMENT_WISE_LOGICAL_AND", "ELEMENT_WISE_LOGICAL_EQUALS",
    "ELEMENT_WISE_LOGICAL_GREATER_THAN", "ELEMENT_WISE_LOGICAL_LESS_THAN", "ELEMENT_WISE_LOGICAL_NOT",
    "ELEMENT_WISE_LOGICAL_OR", "ELEMENT_WISE_LOGICAL_XOR", "ELEMENT_WISE_MAX", "ELEMENT_WISE_MEAN", "ELEMENT_WISE_MIN",
    "ELEMENT_WISE_MULTIPLY", "ELEMENT_WISE_POW", "ELEMENT_WISE_CONSTANT_POW", "ELEMENT_WISE_RECIP", "ELEMENT_WISE_SIN",
    "ELEMENT_WISE_SQRT", "ELEMENT_WISE_SUBTRACT", "ELEMENT_WISE_TAN", "ELEMENT_WISE_THRESHOLD",
    "ELEMENT_WISE_QUANTIZE_LINEAR", "ELEMENT_WISE_DEQUANTIZE_LINEAR", "ACTIVATION_ELU", "ACTIVATION_HARDMAX",
    "ACTIVATION_HARD_SIGMOID", "ACTIVATION_IDENTITY", "ACTIVATION_LEAKY_RELU", "ACTIVATION_LINEAR", "ACTIVATION_LOG_SOFTMAX",
    "ACTIVATION_PARAMETERIZED_RELU", "ACTIVATION_PARAMETRIC_SOFTPLUS", "ACTIVATION_RELU", "ACTIVATION_SCALED_ELU",
    "ACTIVATION_SCALED_TANH", "ACTIVATION_SIGMOID", "ACTIVATION_SOFTMAX", "ACTIVATION_SOFTPLUS", "ACTIVATION_SOFTSIGN",
    "ACTIVATION_TANH", "ACTIVATION_THRESHOLDED_RELU", "CONVOLUTION", "GEMM", "REDUCE", "AVERAGE_POOLING", "LP_POOLING",
    "MAX_POOLING", "ROI_POOLING", "SLICE", "CAST", "SPLIT", "JOIN", "PADDING", "VALUE_SCALE_2D", "UPSAMPLE_2D", "GATHER",
    "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "TILE", "TOP_K", "BATCH_NORMALIZATION", "MEAN_VARIANCE_NORMALIZATION",
    "LOCAL_RESPONSE_NORMALIZATION", "LP_NORMALIZATION", "RNN", "LSTM", "GRU", "ELEMENT_WISE_SIGN", "ELEMENT_WISE_IS_NAN",
    "ELEMENT_WISE_ERF", "ELEMENT_WISE_SINH", "ELEMENT_WISE_COSH", "ELEMENT_WISE_TANH", "ELEMENT_WISE_ASINH",
    "ELEMENT_WISE_ACOSH", "ELEMENT_WISE_ATANH", "ELEMENT_WISE_IF", "ELEMENT_WISE_ADD1", "ACTIVATION_SHRINK", "MAX_POOLING1",
    "MAX_UNPOOLING", "DIAGONAL_MATRIX", "SCATTER_ELEMENTS", "ONE_HOT", "RESAMPLE", "ELEMENT_WISE_BIT_SHIFT_LEFT",
    "ELEMENT_WISE_BIT_SHIFT_RIGHT", "ELEMENT_WISE_ROUND", "ELEMENT_WISE_IS_INFINITY", "ELEMENT_WISE_MODULUS_TRUNCATE",
    "ELEMENT_WISE_MODULUS_FLOOR", "FILL_VALUE_CONSTANT", "FILL_VALUE_SEQUENCE", "CUMULATIVE_SUMMATION",
    "REVERSE_SUBSEQUENCES", "GATHER_ELEMENTS", "GATHER_ND", "SCATTER_ND", "MAX_POOLING2", "SLICE1", "TOP_K1",
    "DEPTH_TO_SPACE1", "SPACE_TO_DEPTH1", "MEAN_VARIANCE_NORMALIZATION1", "RESAMPLE1", "MATRIX_MULTIPLY_INTEGER",
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY", "CONVOLUTION_INTEGER", "QUANTIZED_LINEAR_CONVOLUTION", "ELEMENT_WISE_BIT_AND",
    "ELEMENT_WISE_BIT_OR", "ELEMENT_WISE_BIT_XOR", "ELEMENT_WISE_BIT_NOT", "ELEMENT_WISE_BIT_COUNT",
    "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL", "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL", "ACTIVATION_CELU",
    "ACTIVATION_RELU_GRAD", "AVERAGE_POOLING_GRAD", "MAX_POOLING_GRAD", "RANDOM_GENERATOR", "NONZERO_COORDINATES",
    "RESAMPLE_GRAD", "SLICE_GRAD", "ADAM_OPTIMIZER", "ARGMIN", "ARGMAX", "ROI_ALIGN", "GATHER_ND1", "ELEMENT_WISE_ATAN_YX",
    "ELEMENT_WISE_CLIP_GRAD", "ELEMENT_WISE_DIFFERENCE_SQUARE", "LOCAL_RESPONSE_NORMALIZATION_GRAD", "CUMULATIVE_PRODUCT",
    "BATCH_NORMALIZATION_GRAD", "ELEMENT_WISE_QUANTIZED_LINEAR_ADD", "DYNAMIC_QUANTIZE_LINEAR", "ROI_ALIGN1",
    "ROI_ALIGN_GRAD", "BATCH_NORMALIZATION_TRAINING", "BATCH_NORMALIZATION_TRAINING_GRAD", "ELEMENT_WISE_CLIP1",
    "ELEMENT_WISE_CLIP_GRAD1", "PADDING1", "ELEMENT_WISE_NEGATE", "ACTIVATION_GELU", "ACTIVATION_SOFTMAX1",
    "ACTIVATION_LOG_SOFTMAX1", "ACTIVATION_HARDMAX1", "RESAMPLE2", "RESAMPLE_GRAD1", "DIAGONAL_MATRIX1",
    "MULTIHEAD_ATTENTION", "LP_POOLING1", "AVERAGE_POOLING1", "ACTIVATION_SWISH", "ACTIVATION_HARD_SWISH",
    "QUANTIZED_LINEAR_AVERAGE_POOLING", "MATRIX_MULTIPLY_INTEGER_TO_FLOAT", "MEAN_VARIANCE_NORMALIZATION2",
    "MULTIHEAD_ATTENTION1", "QUANTIZE", "DEQUANTIZE", "RESAMPLE3", "FOLD", "UNFOLD"
};
inline constexpr const char* data_type_names[] = {
    "UNKNOWN", "FLOAT32", "FLOAT16", "UINT32", "UINT16", "UINT8", "INT32", "INT16", "INT8", "FLOAT64", "UINT64", "INT64",
    "UINT4", "INT4"
};
inline constexpr const char* flag_names[] = {
    "NONE", "OWNED_BY_DML"
};
inline constexpr const char* order_names[] = {
    "DEPTH_COLUMN_ROW", "COLUMN_ROW_DEPTH"
};

inline void fields(Line& line, const DML_BUFFER_TENSOR_DESC& desc) {
    line.enumerator("DataType", desc.DataType, data_type_names);
    line.enumerator("Flags", desc.Flags, flag_names);
    line.number("DimensionCount", desc.DimensionCount);
    line.array("Sizes", desc.Sizes, desc.DimensionCount);
    line.array("Strides", desc.Strides, desc.DimensionCount);
    line.number("TotalTensorSizeInBytes", desc.TotalTensorSizeInBytes);
    line.number("GuaranteedBaseOffsetAlignment", desc.GuaranteedBaseOffsetAlignment);
}

inline void fields(Line& line, const DML_GATHER_OPERATOR_DESC& desc) {
    tensor(line, "InputTensor", desc.InputTensor);
    tensor(line, "IndicesTensor", desc.IndicesTensor);
    tensor(line, "OutputTensor", desc.OutputTensor);
    line.number("Axis", desc.Axis);
    line.number("IndexDimensions", desc.IndexDimensions);
}

inline void fields(Line& line, const DML_SLICE_OPERATOR_DESC& desc) {
    tensor(line, "InputTensor", desc.InputTensor);
    tensor(line, "OutputTensor", desc.OutputTensor);
    line.number("DimensionCount", desc.DimensionCount);
    line.array("Offsets", desc.Offsets, desc.DimensionCount);
    line.array("Sizes", desc.Sizes, desc.DimensionCount);
    line.array("Strides", desc.Strides, desc.DimensionCount);
}

#if DMLGATHER_DML_VERSION >= 0x2100
inline void fields(Line& line, const DML_GATHER_ELEMENTS_OPERATOR_DESC& desc) {
    tensor(line, "InputTensor", desc.InputTensor);
    tensor(line, "IndicesTensor", desc.IndicesTensor);
    tensor(line, "OutputTensor", desc.OutputTensor);
    line.number("Axis", desc.Axis);
}

inline void fields(Line& line, const DML_GATHER_ND_OPERATOR_DESC& desc) {
    tensor(line, "InputTensor", desc.InputTensor);
    tensor(line, "IndicesTensor", desc.IndicesTensor);
    tensor(line, "OutputTensor", desc.OutputTensor);
    line.number("InputDimensionCount", desc.InputDimensionCount);
    line.number("IndicesDimensionCount", desc.IndicesDimensionCount);
}

inline void fields(Line& line, const DML_SLICE1_OPERATOR_DESC& desc) {
    tensor(line, "InputTensor", desc.InputTensor);
    tensor(line, "OutputTensor", desc.OutputTensor);
    line.number("DimensionCount", desc.DimensionCount);
    line.array("InputWindowOffsets", desc.InputWindowOffsets, desc.DimensionCount);
    line.array("InputWindowSizes", desc.InputWindowSizes, desc.DimensionCount);
    line.array("InputWindowStrides", desc.InputWindowStrides, desc.DimensionCount);
}

inline void fields(Line& line, const DML_DEPTH_TO_SPACE1_OPERATOR_DESC& desc) {
    tensor(line, "InputTensor", desc.InputTensor);
    tensor(line, "OutputTensor", desc.OutputTensor);
    line.number("BlockSize", desc.BlockSize);
    line.enumerator("Order", desc.Order, order_names);
}

inline void fields(Line& line, const DML_SPACE_TO_DEPTH1_OPERATOR_DESC& desc) {
    tensor(line, "InputTensor", desc.InputTensor);
    tensor(line, "OutputTensor", desc.OutputTensor);
    line.number("BlockSize", desc.BlockSize);
    line.enumerator("Order", desc.Order, order_names);
}
#endif

#if DMLGATHER_DML_VERSION >= 0x3000
inline void fields(Line& line, const DML_GATHER_ND1_OPERATOR_DESC& desc) {
    tensor(line, "InputTensor", desc.InputTensor);
    tensor(line, "IndicesTensor", desc.IndicesTensor);
    tensor(line, "OutputTensor", desc.OutputTensor);
    line.number("InputDimensionCount", desc.InputDimensionCount);
    line.number("IndicesDimensionCount", desc.IndicesDimensionCount);
    line.number("BatchDimensionCount", desc.BatchDimensionCount);
}
#endif

// Writes the structure of the operator; nothing where dmlgather does not have the operator.
inline void operation(Line& line, const DML_OPERATOR_DESC& desc) {
    switch (number_of(desc.Type)) {
    case DML_OPERATOR_GATHER: return structure<DML_GATHER_OPERATOR_DESC>(line, desc.Desc);
    case DML_OPERATOR_SLICE: return structure<DML_SLICE_OPERATOR_DESC>(line, desc.Desc);
#if DMLGATHER_DML_VERSION >= 0x2100
    case DML_OPERATOR_GATHER_ELEMENTS: return structure<DML_GATHER_ELEMENTS_OPERATOR_DESC>(line, desc.Desc);
    case DML_OPERATOR_GATHER_ND: return structure<DML_GATHER_ND_OPERATOR_DESC>(line, desc.Desc);
    case DML_OPERATOR_SLICE1: return structure<DML_SLICE1_OPERATOR_DESC>(line, desc.Desc);
    case DML_OPERATOR_DEPTH_TO_SPACE1: return structure<DML_DEPTH_TO_SPACE1_OPERATOR_DESC>(line, desc.Desc);
    case DML_OPERATOR_SPACE_TO_DEPTH1: return structure<DML_SPACE_TO_DEPTH1_OPERATOR_DESC>(line, desc.Desc);
#endif
#if DMLGATHER_DML_VERSION >= 0x3000
    case DML_OPERATOR_GATHER_ND1: return structure<DML_GATHER_ND1_OPERATOR_DESC>(line, desc.Desc);
#endif
    default: return;
    }
}

// end of generated

inline std::mutex& writing() {
    static std::mutex mutex;
    return mutex;
}

inline const char* variable(const char* name) {
#if defined(_MSC_VER)
#pragma warning(push)
#pragma warning(disable : 4996)  // getenv is only unsafe while another thread changes the environment
#endif
    return std::getenv(name);
#if defined(_MSC_VER)
#pragma warning(pop)
#endif
}

}  // namespace detail

// Returns the descriptor as JSON, without a line feed. `name`: a label for `dmlgather check`, such as a line of the program.
inline std::string to_json(const DML_OPERATOR_DESC* desc, std::string_view name = {}) {
    detail::Line line;
    line.open(nullptr);
    if (!name.empty()) line.string("name", name);
    if (desc == nullptr) {
        line.null("type");
    } else {
        const unsigned type = detail::number_of(desc->Type);
        if (type < sizeof(detail::operator_names) / sizeof(*detail::operator_names)) {
            line.string("type", std::string("DML_OPERATOR_") + detail::operator_names[type]);
        } else {
            line.number("type", type);
        }
        detail::operation(line, *desc);
    }
    line.close();
    return std::move(line.text);
}

// Writes the descriptor to a stream as one line.
inline void dump(const DML_OPERATOR_DESC& desc, std::ostream& stream, std::string_view name = {}) {
    const std::string line = to_json(&desc, name) + '\n';
    const std::lock_guard<std::mutex> lock(detail::writing());
    stream.write(line.data(), static_cast<std::streamsize>(line.size()));
}

// Appends the descriptor to a file as one line; returns false on failure.
inline bool dump(const DML_OPERATOR_DESC& desc, const std::string& file, std::string_view name = {}) {
    const std::string line = to_json(&desc, name) + '\n';
    const std::lock_guard<std::mutex> lock(detail::writing());
    std::ofstream stream(file, std::ios::binary | std::ios::app);
    stream.write(line.data(), static_cast<std::streamsize>(line.size()));
    stream.close();
    return !stream.fail();
}

// Appends the descriptor to the file that the environment variable DMLGATHER_DUMP names, if it is set.
inline void trace(const DML_OPERATOR_DESC* desc, std::string_view name = {}) {
    const char* const file = detail::variable("DMLGATHER_DUMP");
    if (file == nullptr || *file == '\0' || desc == nullptr || dump(*desc, file, name)) return;
    static const int warned_once = std::fprintf(stderr, "dmlgather_dump.h: DMLGATHER_DUMP=%s cannot be written\n", file);
    static_cast<void>(warned_once);
}

// Traces the descriptor, then calls device->CreateOperator(desc, out…). `device`: any pointer to an IDMLDevice.
template <typename Device, typename... Out>
auto create_operator(const char* name, Device&& device, const DML_OPERATOR_DESC* desc, Out&&... out) {
    trace(desc, name == nullptr ? "" : name);
    return device->CreateOperator(desc, std::forward<Out>(out)...);
}

}  // namespace dmlgather

#define DMLGATHER_QUOTED_AGAIN(text) #text
#define DMLGATHER_QUOTED(text) DMLGATHER_QUOTED_AGAIN(text)
#define DMLGATHER_PLACE __FILE__ ":" DMLGATHER_QUOTED(__LINE__)
#define DMLGATHER_CREATE_OPERATOR(device, ...) ::dmlgather::create_operator(DMLGATHER_PLACE, (device), __VA_ARGS__)

#endif  // DMLGATHER_DUMP_H
