#include "serve/model_set.h"

#include <algorithm>

#include "base/nearest.h"

namespace stoa::serve {

void ModelSet::add(Model model) {
  const std::lock_guard lock(mutex_);
  for (const Model& other : models_)
    require<ConfigError>(!other->answers_to(model->name()),
                         "two models are named '{}': NAME=MODEL names them apart", model->name());
  models_.push_back(std::move(model));
}

void ModelSet::replace(Model model) {
  const std::lock_guard lock(mutex_);
  for (Model& other : models_)
    if (other->name() == model->name()) {
      retired_.push_back(std::exchange(other, std::move(model)));
      return;
    }
}

void ModelSet::sweep() {
  std::vector<Model> unused;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  std::erase_if(retired_, [&](Model& model) {
    if (model.use_count() > 1) return false;
    unused.push_back(std::move(model));
    return true;
  });
}

std::vector<ModelSet::Model> ModelSet::all() const {
  const std::lock_guard lock(mutex_);
  return models_;
}

ModelSet::Model ModelSet::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  if (name.empty()) return models_.front();
  for (const Model& model : models_)
    if (model->answers_to(name)) return model;
  std::vector<std::string> names;
  for (const Model& model : models_) names.push_back(model->name());
  const std::string given(name.substr(0, 200));
  throw ApiError(
      404, fmt::format("no model '{}' here{}; /v1/models lists them", given, did_you_mean(given, names)),
      "model", "model_not_found");
}

ModelSet::Model ModelSet::of(const RequestBody& body) const { return find(body.text("model").value_or("")); }

void ModelSet::stop() {
  for (const Model& model : all()) model->stop();
  std::vector<Model> retired;
  {
    const std::lock_guard lock(mutex_);
    retired = retired_;
  }
  for (const Model& model : retired) model->stop();
}

}  // namespace stoa::serve
