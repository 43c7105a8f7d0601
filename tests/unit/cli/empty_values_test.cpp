#include "cli/empty_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace leat::cli {
namespace {

class EmptyValues : public testing::Test {
  protected:
    EmptyValues() {
        CLI::App* const record = app_.add_subcommand("record", "");
        record->positionals_at_end();
        record->add_option("--live", live_, "")->expected(0, 1)->default_str("net://default");
        record->add_option("-o,--output", output_, "");
        record->add_flag("--quiet");
        record->add_option("PROGRAM", program_, "");
    }

    std::vector<std::string> words(std::vector<std::string> given) {
        given.insert(given.begin(), "leat");
        std::vector<char*> arguments;
        for (std::string& word : given) arguments.push_back(word.data());
        std::vector<std::string> words = with_empty_values(app_, arguments);
        std::ranges::reverse(words);
        return words;
    }
    using Words = std::vector<std::string>;

    CLI::App app_;
    std::string live_;
    std::string output_;
    std::vector<std::string> program_;
};

TEST_F(EmptyValues, EmptyOneIsAWordOfItsOwn) {
    EXPECT_EQ(words({"record", "--output=", "echo"}), Words({"record", "--output", "", "echo"}));
    EXPECT_EQ(words({"record", "--output=a", "echo"}), Words({"record", "--output=a", "echo"}));
}

TEST_F(EmptyValues, WordsOfAProgramStay) {
    EXPECT_EQ(words({"record", "echo", "--output=", "--live"}), Words({"record", "echo", "--output=", "--live"}));
    EXPECT_EQ(words({"record", "--", "--output=", "--live"}), Words({"record", "--", "--output=", "--live"}));
    EXPECT_EQ(words({"record", "-o", "--live", "--live"}), Words({"record", "-o", "--live", "--live=net://default"}));
}

TEST_F(EmptyValues, WhatMayStandAloneTakesAUrlAlone) {
    EXPECT_EQ(words({"record", "--live", "echo"}), Words({"record", "--live=net://default", "echo"}));
    EXPECT_EQ(words({"record", "--live", "--quiet", "a"}), Words({"record", "--live=net://default", "--quiet", "a"}));
    EXPECT_EQ(words({"record", "--live", "net://a", "b"}), Words({"record", "--live", "net://a", "b"}));
    EXPECT_EQ(words({"record", "--live", "", "b"}), Words({"record", "--live", "", "b"}));
    EXPECT_EQ(words({"record", "--live=net://a", "b"}), Words({"record", "--live=net://a", "b"}));
}

}  // namespace
}  // namespace leat::cli
