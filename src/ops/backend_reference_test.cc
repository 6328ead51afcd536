// The reference put through the suite, which proves the suite, not the reference.
#include "ops/backend_suite.h"
#include "ops/reference/reference_backend.h"

namespace stoa::ops::testing {

INSTANTIATE_TEST_SUITE_P(Reference, BackendTest,
                         ::testing::Values(BackendCase{"reference",
                                                       [] { return std::make_shared<ReferenceBackend>(); }}),
                         BackendCaseName());

}  // namespace stoa::ops::testing
