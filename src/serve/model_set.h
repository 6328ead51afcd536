// The models that a server offers, by name. A model may be replaced while it answers: requests keep the one
// they began with.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "serve/served_model.h"

namespace stoa::serve {

class ModelSet {
 public:
  using Model = std::shared_ptr<ServedModel>;

  void add(Model model);
  // In place of the one of the same name; that one is destroyed by sweep() once nobody uses it.
  void replace(Model model);
  void sweep();

  std::vector<Model> all() const;
  // "": the first. ApiError 404, code model_not_found.
  Model find(std::string_view name) const;
  // The model that field "model" of a request names.
  Model of(const RequestBody& body) const;
  void stop();  // each of them

 private:
  mutable std::mutex mutex_;
  std::vector<Model> models_, retired_;
};

}  // namespace stoa::serve
