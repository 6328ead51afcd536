#include "comm/nccl/nccl_api.h"

namespace stoa::comm {

NcclApi NcclApi::load() {
  static constexpr const char* kNames[] = {"libnccl.so.2", "libnccl.so"};
  NcclApi api;
  api.library = std::make_shared<DynamicLibrary>("NCCL, needed for ranks on several GPUs,", kNames);
  const DynamicLibrary& library = *api.library;
  library.find(api.version, "ncclGetVersion");
  library.find(api.unique_id, "ncclGetUniqueId");
  library.find(api.init, "ncclCommInitRank");
  library.find(api.destroy, "ncclCommDestroy");
  library.find(api.abort, "ncclCommAbort");
  library.find(api.async_error, "ncclCommGetAsyncError");
  library.find(api.status_name, "ncclGetErrorString");
  library.find(api.group_start, "ncclGroupStart");
  library.find(api.group_end, "ncclGroupEnd");
  library.find(api.all_reduce, "ncclAllReduce");
  library.find(api.all_gather, "ncclAllGather");
  library.find(api.reduce_scatter, "ncclReduceScatter");
  library.find(api.broadcast, "ncclBroadcast");
  library.find(api.send, "ncclSend");
  library.find(api.receive, "ncclRecv");
  return api;
}

}  // namespace stoa::comm
