// Reads descriptors as words and writes them with dmlgather_dump.h: program (stream | place | file NAME | threads NAME | create | unnamed) < WORDS
//
// A descriptor: number of DML_OPERATOR_TYPE, name in hexadecimal ("-" for none), "null" or "desc" and the fields of its structure.
// A tensor: "null", or its type and "null", or its type and its fields. An array: "null", or its length and its entries.
#include <DirectML.h>
#include <dmlgather_dump.h>

#include <deque>
#include <iostream>
#include <thread>
#include <vector>

static_assert(sizeof(void*) == 8, "the layout below is that of 64-bit programs");
static_assert(sizeof(DML_BUFFER_TENSOR_DESC) == 48, "");
static_assert(offsetof(DML_BUFFER_TENSOR_DESC, DimensionCount) == 8, "");
static_assert(offsetof(DML_BUFFER_TENSOR_DESC, Strides) == 24, "");
static_assert(offsetof(DML_BUFFER_TENSOR_DESC, TotalTensorSizeInBytes) == 32, "");
static_assert(offsetof(DML_BUFFER_TENSOR_DESC, GuaranteedBaseOffsetAlignment) == 40, "");
static_assert(sizeof(DML_TENSOR_DESC) == 16 && offsetof(DML_TENSOR_DESC, Desc) == 8, "");
static_assert(sizeof(DML_OPERATOR_DESC) == 16 && offsetof(DML_OPERATOR_DESC, Desc) == 8, "");
static_assert(sizeof(DML_GATHER_OPERATOR_DESC) == 32 && offsetof(DML_GATHER_OPERATOR_DESC, IndexDimensions) == 28, "");
static_assert(sizeof(DML_GATHER_ELEMENTS_OPERATOR_DESC) == 32 && offsetof(DML_GATHER_ELEMENTS_OPERATOR_DESC, Axis) == 24, "");
static_assert(sizeof(DML_GATHER_ND_OPERATOR_DESC) == 32, "");
static_assert(sizeof(DML_GATHER_ND1_OPERATOR_DESC) == 40 && offsetof(DML_GATHER_ND1_OPERATOR_DESC, BatchDimensionCount) == 32, "");
static_assert(sizeof(DML_SLICE_OPERATOR_DESC) == 48 && offsetof(DML_SLICE_OPERATOR_DESC, Offsets) == 24, "");
static_assert(sizeof(DML_SLICE1_OPERATOR_DESC) == 48 && offsetof(DML_SLICE1_OPERATOR_DESC, InputWindowStrides) == 40, "");
static_assert(sizeof(DML_DEPTH_TO_SPACE1_OPERATOR_DESC) == 24 && offsetof(DML_DEPTH_TO_SPACE1_OPERATOR_DESC, Order) == 20, "");

// Everything that descriptors point to; a deque never moves its elements.
static std::deque<std::vector<UINT>> arrays;
static std::deque<std::vector<INT>> signed_arrays;
static std::deque<DML_BUFFER_TENSOR_DESC> buffers;
static std::deque<DML_TENSOR_DESC> tensors;

static std::string word() {
    std::string found;
    std::cin >> found;
    return found;
}

template <typename Integer>
static Integer number() {
    return static_cast<Integer>(std::stoull(word()));
}

static UINT value() { return number<UINT>(); }

template <typename Integer>
static const Integer* array(std::deque<std::vector<Integer>>& kept) {
    const std::string length = word();
    if (length == "null") return nullptr;
    std::vector<Integer> values(std::stoull(length));
    for (Integer& value : values) value = static_cast<Integer>(std::stoll(word()));
    values.reserve(1);  // an empty array has an address, too
    kept.push_back(std::move(values));
    return kept.back().data();
}

static const DML_TENSOR_DESC* tensor() {
    const std::string type = word();
    if (type == "null") return nullptr;
    DML_TENSOR_DESC desc = {static_cast<DML_TENSOR_TYPE>(std::stoul(type)), nullptr};
    const std::string data_type = word();
    if (data_type != "null") {
        DML_BUFFER_TENSOR_DESC buffer = {};
        buffer.DataType = static_cast<DML_TENSOR_DATA_TYPE>(std::stoul(data_type));
        buffer.Flags = static_cast<DML_TENSOR_FLAGS>(value());
        buffer.DimensionCount = value();
        buffer.Sizes = array(arrays);
        buffer.Strides = array(arrays);
        buffer.TotalTensorSizeInBytes = number<UINT64>();
        buffer.GuaranteedBaseOffsetAlignment = value();
        buffers.push_back(buffer);
        desc.Desc = &buffers.back();
    }
    tensors.push_back(desc);
    return &tensors.back();
}

template <typename Structure>
static const void* kept(Structure desc) {
    static std::deque<Structure> all;
    all.push_back(desc);
    return &all.back();
}

// Braces evaluate from left to right.
static const void* structure(unsigned type) {
    switch (type) {
    case 60: return kept(DML_SLICE_OPERATOR_DESC{tensor(), tensor(), value(), array(arrays), array(arrays), array(arrays)});
    case 67: return kept(DML_GATHER_OPERATOR_DESC{tensor(), tensor(), tensor(), value(), value()});
    case 107: return kept(DML_GATHER_ELEMENTS_OPERATOR_DESC{tensor(), tensor(), tensor(), value()});
    case 108: return kept(DML_GATHER_ND_OPERATOR_DESC{tensor(), tensor(), tensor(), value(), value()});
    case 111: return kept(DML_SLICE1_OPERATOR_DESC{tensor(), tensor(), value(), array(arrays), array(arrays), array(signed_arrays)});
    case 113:
        return kept(DML_DEPTH_TO_SPACE1_OPERATOR_DESC{tensor(), tensor(), value(), static_cast<DML_DEPTH_SPACE_ORDER>(value())});
    case 114:
        return kept(DML_SPACE_TO_DEPTH1_OPERATOR_DESC{tensor(), tensor(), value(), static_cast<DML_DEPTH_SPACE_ORDER>(value())});
    case 140: return kept(DML_GATHER_ND1_OPERATOR_DESC{tensor(), tensor(), tensor(), value(), value(), value()});
    default: return nullptr;
    }
}

static std::string from_hexadecimal(const std::string& text) {
    std::string bytes;
    for (std::size_t at = 0; text != "-" && at < text.size(); at += 2) {
        bytes += static_cast<char>(std::stoi(text.substr(at, 2), nullptr, 16));
    }
    return bytes;
}

// What the macro needs of an IDMLDevice.
struct Device {
    unsigned created;
    HRESULT CreateOperator(const DML_OPERATOR_DESC* desc, int, void** out) {
        created += desc != nullptr;
        *out = this;
        return 0;
    }
};

int main(int count, char** arguments) {
    const std::string mode = count > 1 ? arguments[1] : "";
    Device device = {0};
    unsigned wanted = 0;
    for (std::string type = word(); !type.empty(); type = word(), ++wanted) {
        const std::string name = from_hexadecimal(word());
        DML_OPERATOR_DESC desc = {static_cast<DML_OPERATOR_TYPE>(std::stoul(type)), nullptr};
        if (word() != "null") desc.Desc = structure(static_cast<unsigned>(std::stoul(type)));
        if (mode == "stream") {
            dmlgather::dump(desc, std::cout, name);
        } else if (mode == "place") {
            dmlgather::dump(desc, std::cout, DMLGATHER_PLACE);
        } else if (mode == "file") {
            if (!dmlgather::dump(desc, std::string(arguments[2]), name)) return 1;
        } else if (mode == "threads") {
            std::vector<std::thread> threads;
            for (int each = 0; each < 4; ++each) {
                threads.emplace_back([&] { dmlgather::dump(desc, std::string(arguments[2]), name); });
            }
            for (std::thread& thread : threads) thread.join();
        } else {
            void* created = nullptr;
            if (mode == "unnamed") return dmlgather::create_operator(nullptr, &device, &desc, 7, &created);
            if (DMLGATHER_CREATE_OPERATOR(&device, &desc, 7, &created) != 0 || created != &device) return 1;
        }
    }
    return mode == "create" && device.created != wanted ? 1 : 0;
}
