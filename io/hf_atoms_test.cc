#include <gtest/gtest.h>

#include "hf_config_cases.hpp"

// ESMFold2; python/tests/models/test_towers.py holds its atoms to the model's own module.

namespace bearing {
namespace {

using test::described;
using test::error_of;

TEST(HfAtoms, TurnByThreeCoordinatesAndTheirGroup) {
  const Model model =
      parse_hf_config(R"({"model_type": "esmfold2", "sliding_window": 9, "atom_encoder": {"hidden_size": 160},
      "structure_head": {"model_type": "", "diffusion_module": {"model_type": "", "num_hidden_layers": 2,
        "atom_encoder": {"head_dim": 32, "num_hidden_layers": 1}}}})");
  ASSERT_EQ(model.towers.size(), 3u);
  const Model& atoms = model.towers[0];
  EXPECT_EQ(atoms.part, "atom encoder");
  EXPECT_EQ(described(atoms), "3 sliding_attention@5+4 half 10000 40/40 default axes 4");
  RopeAxes axes = RopeAxes::axial({2, 2, 2, 10});
  axes.bases = {20, 20, 20, 10'000};
  axes.still = 4;
  EXPECT_EQ(std::get<Rope>(atoms.layers[0].encoding).axes, axes);
  EXPECT_EQ(atoms.layers[0].positions, "x, y and z of the atom, and the number of its group");
  EXPECT_EQ(described(model.towers[1]), "2 full_attention dense_bias");
  EXPECT_EQ(described(model.towers[2]), "1 sliding_attention@5+4 half 10000 32/32 default axes 4");
}

TEST(HfAtoms, SeeTheWindowOfTheClassWhereTheFileHasNone) {
  const Model model = parse_hf_config(R"({"model_type": "esmfold2", "atom_encoder": {"num_hidden_layers": 1}})");
  EXPECT_EQ(described(model.towers.at(0)), "1 sliding_attention@65+64 half 10000 32/32 default axes 4");
}

TEST(HfAtoms, NeedPairsForEveryAxis) {
  EXPECT_NE(error_of(R"({"model_type": "esmfold2_atoms", "head_dim": 30})")
                .find("/head_dim: must give heads of an even number of dimensions from 32"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"model_type": "esmfold2_atoms", "num_uid_rope_pairs": 0})").find("/num_uid_rope_pairs"),
            std::string::npos);
}

}  // namespace
}  // namespace bearing
