#include "eval/sandbox/system_calls.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace stoa::eval {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kMachine = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kMachine = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kMachine = 0;  // no system call is of it: everything is refused
#endif

constexpr std::uint32_t kForeignNumbers = 0x40000000;  // of x32 on x86-64

sock_filter statement(std::uint16_t code, std::uint32_t k) { return BPF_STMT(code, k); }
sock_filter jump(std::uint16_t code, std::uint32_t k, std::uint8_t yes, std::uint8_t no) {
  return BPF_JUMP(code, k, yes, no);
}
sock_filter answer(std::uint32_t what) { return statement(BPF_RET | BPF_K, what); }
sock_filter load(std::size_t offset) {
  return statement(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}

constexpr std::uint32_t refused(int error) { return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error); }

// The low and the high half of an argument.
std::size_t low_half(std::size_t argument) {
  return offsetof(seccomp_data, args) + 8 * argument;  // little-endian machines only
}
std::size_t high_half(std::size_t argument) { return low_half(argument) + 4; }

class FilterWriter {
 public:
  FilterWriter() {
    program_ = {load(offsetof(seccomp_data, arch)),
                jump(BPF_JMP | BPF_JEQ | BPF_K, kMachine, 1, 0),
                answer(SECCOMP_RET_KILL_PROCESS),
                load(offsetof(seccomp_data, nr)),
                jump(BPF_JMP | BPF_JGE | BPF_K, kForeignNumbers, 0, 1),
                answer(refused(ENOSYS))};
  }

  void allow(long call) { add_case(call, {answer(SECCOMP_RET_ALLOW)}); }
  void refuse(long call, int error) { add_case(call, {answer(refused(error))}); }
  // Allowed where the low half of an argument is one of `values`, at most 100.
  void allow_values(long call, std::size_t argument, const std::vector<std::uint32_t>& values) {
    std::vector<sock_filter> then{load(low_half(argument))};
    for (std::size_t i = 0; i < values.size(); ++i)
      then.push_back(
          jump(BPF_JMP | BPF_JEQ | BPF_K, values[i], static_cast<std::uint8_t>(values.size() - i), 0));
    then.push_back(answer(refused(EPERM)));
    then.push_back(answer(SECCOMP_RET_ALLOW));
    add_case(call, then);
  }
  // Allowed where the low half of an argument and `mask` give `value`.
  void allow_where(long call, std::size_t argument, std::uint32_t mask, std::uint32_t value) {
    add_case(call, {load(low_half(argument)), statement(BPF_ALU | BPF_AND | BPF_K, mask),
                    jump(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1), answer(SECCOMP_RET_ALLOW),
                    answer(refused(EPERM))});
  }
  void allow_where_pointer(long call, std::size_t argument, std::uint64_t value) {
    add_case(call, {load(low_half(argument)),
                    jump(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(value), 0, 3),
                    load(high_half(argument)),
                    jump(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(value >> 32), 0, 1),
                    answer(SECCOMP_RET_ALLOW), answer(refused(EPERM))});
  }
  std::vector<sock_filter> finish() {
    program_.push_back(answer(refused(EPERM)));
    return program_;
  }

 private:
  // `then` ends in answers for all it can come to; the number of the call stays loaded for the next case.
  void add_case(long call, const std::vector<sock_filter>& then) {
    program_.push_back(jump(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0,
                            static_cast<std::uint8_t>(then.size())));
    program_.insert(program_.end(), then.begin(), then.end());
  }

  std::vector<sock_filter> program_;
};

void allow_harmless_calls(FilterWriter& filter) {
  for (const long call : {SYS_read,
                          SYS_readv,
                          SYS_pread64,
                          SYS_write,
                          SYS_writev,
                          SYS_close,
                          SYS_fstat,
                          SYS_newfstatat,
                          SYS_statx,
                          SYS_lseek,
                          SYS_mmap,
                          SYS_mprotect,
                          SYS_munmap,
                          SYS_brk,
                          SYS_mremap,
                          SYS_madvise,
                          SYS_rt_sigaction,
                          SYS_rt_sigprocmask,
                          SYS_rt_sigreturn,
                          SYS_rt_sigpending,
                          SYS_rt_sigtimedwait,
                          SYS_sigaltstack,
                          SYS_faccessat,
                          SYS_faccessat2,
                          SYS_readlinkat,
                          SYS_getdents64,
                          SYS_getcwd,
                          SYS_pipe2,
                          SYS_dup,
                          SYS_dup3,
                          SYS_ppoll,
                          SYS_pselect6,
                          SYS_epoll_create1,
                          SYS_epoll_ctl,
                          SYS_epoll_pwait,
                          SYS_eventfd2,
                          SYS_nanosleep,
                          SYS_clock_nanosleep,
                          SYS_clock_gettime,
                          SYS_clock_getres,
                          SYS_gettimeofday,
                          SYS_times,
                          SYS_getrusage,
                          SYS_setitimer,
                          SYS_getitimer,
                          SYS_sysinfo,
                          SYS_uname,
                          SYS_getpid,
                          SYS_gettid,
                          SYS_getppid,
                          SYS_getpgid,
                          SYS_getsid,
                          SYS_getuid,
                          SYS_geteuid,
                          SYS_getgid,
                          SYS_getegid,
                          SYS_getgroups,
                          SYS_getresuid,
                          SYS_getresgid,
                          SYS_futex,
                          SYS_sched_yield,
                          SYS_sched_getaffinity,
                          SYS_getcpu,
                          SYS_set_tid_address,
                          SYS_set_robust_list,
                          SYS_get_robust_list,
                          SYS_rseq,
                          SYS_membarrier,
                          SYS_getrandom,
                          SYS_restart_syscall,
                          SYS_exit,
                          SYS_exit_group,
                          SYS_umask})
    filter.allow(call);
#if defined(__x86_64__)
  for (const long call : {SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_poll, SYS_select, SYS_dup2,
                          SYS_pipe, SYS_epoll_create, SYS_epoll_wait, SYS_eventfd, SYS_time, SYS_alarm,
                          SYS_pause, SYS_arch_prctl, SYS_getpgrp, SYS_getrlimit})
    filter.allow(call);
#endif
}

}  // namespace

std::vector<sock_filter> sandbox_filter(const char* program) {
  constexpr std::uint32_t kWrites =
      O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY);
  FilterWriter filter;
  allow_harmless_calls(filter);
  filter.allow_where(SYS_openat, 2, kWrites, 0);
  filter.refuse(SYS_openat2, ENOSYS);  // its flags are in memory
#if defined(__x86_64__)
  filter.allow_where(SYS_open, 1, kWrites, 0);
#endif
  filter.allow_where(SYS_clone, 0, CLONE_THREAD | CLONE_VM, CLONE_THREAD | CLONE_VM);
  filter.refuse(SYS_clone3, ENOSYS);                // the C library then uses clone
  filter.allow_where_pointer(SYS_prlimit64, 2, 0);  // reading limits
  for (const long call : {SYS_kill, SYS_tgkill}) filter.allow_where(call, 0, 0xFFFFFFFFU, kOwnProcess);
  // No owners and no leases of files.
  filter.allow_values(SYS_fcntl, 1, {F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_DUPFD_CLOEXEC});
  filter.allow_values(SYS_ioctl, 1, {TCGETS, FIOCLEX, FIONCLEX, FIONREAD});
  filter.allow_values(SYS_prctl, 0, {PR_SET_NAME, PR_GET_NAME});
  filter.allow_where_pointer(SYS_execve, 0, reinterpret_cast<std::uint64_t>(program));
  return filter.finish();
}

}  // namespace stoa::eval
