// The functions of NCCL that are used, found at run time; a test puts its own in their place. Declared here,
// so that a program that is built without NCCL's header can use the library: NCCL 2, nccl.h.
#pragma once

#include <cstddef>
#include <memory>

#include "device/dynamic_library.h"

struct ncclComm;

namespace stoa::comm {

struct NcclId {
  char bytes[128];
};
using NcclHandle = ncclComm*;

// Values of nccl.h.
enum class NcclType : int { kU8 = 1, kI32 = 2, kI64 = 4, kF16 = 6, kF32 = 7, kF64 = 8, kBF16 = 9 };
enum class NcclReduce : int { kSum = 0, kMax = 2 };
enum NcclStatus : int { kNcclSuccess = 0, kNcclInProgress = 7 };

// Streams are cudaStream_t.
struct NcclApi {
  int (*version)(int* version) = nullptr;
  int (*unique_id)(NcclId* id) = nullptr;
  int (*init)(NcclHandle* comm, int size, NcclId id, int rank) = nullptr;
  int (*destroy)(NcclHandle comm) = nullptr;
  int (*abort)(NcclHandle comm) = nullptr;
  int (*async_error)(NcclHandle comm, int* status) = nullptr;
  const char* (*status_name)(int status) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void* in, void* out, std::size_t count, NcclType type, NcclReduce op,
                    NcclHandle comm, void* stream) = nullptr;
  int (*all_gather)(const void* in, void* out, std::size_t in_count, NcclType type, NcclHandle comm,
                    void* stream) = nullptr;
  int (*reduce_scatter)(const void* in, void* out, std::size_t out_count, NcclType type, NcclReduce op,
                        NcclHandle comm, void* stream) = nullptr;
  int (*broadcast)(const void* in, void* out, std::size_t count, NcclType type, int root, NcclHandle comm,
                   void* stream) = nullptr;
  int (*send)(const void* data, std::size_t count, NcclType type, int peer, NcclHandle comm,
              void* stream) = nullptr;
  int (*receive)(void* data, std::size_t count, NcclType type, int peer, NcclHandle comm,
                 void* stream) = nullptr;

  std::shared_ptr<DynamicLibrary> library;  // none for a test's functions

  static NcclApi load();  // DeviceError says where it looked
};

}  // namespace stoa::comm
