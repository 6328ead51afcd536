#include "infer/machine.h"

#include "device/meta/meta_device.h"
#include "ops/meta/meta_backend.h"

namespace stoa::infer {

Machine make_meta_machine(const Machine& machine) {
  Machine meta;
  meta.device = std::make_unique<MetaDevice>();
  meta.backend = std::make_unique<ops::MetaBackend>(*machine.backend);
  meta.stream = meta.device->create_stream();
  meta.description = "plan for " + machine.description;
  return meta;
}

}  // namespace stoa::infer
