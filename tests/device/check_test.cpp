#include "runtime/device/check.hpp"

#include <doctest/doctest.h>

#include "tests/core/messages.hpp"

namespace oomb::device {

namespace {

class Names : public ErrorContext {
  public:
    explicit Names(std::string text) : text_(std::move(text)) {}
    std::string describe() const override { return text_; }

  private:
    std::string text_;
};

std::string message_of_failure() {
    return test::message_of<CudaError>([] { OOMB_CUDA(cudaErrorInvalidValue); });
}

}  // namespace

TEST_CASE("a failed call says which, where and why") {
    test::check_contains(message_of_failure(), {"cudaErrorInvalidValue at tests/device/check_test.cpp:",
                                                "cudaErrorInvalidValue (invalid argument)"});
    try {
        OOMB_CUDA(cudaErrorNoDevice);
        FAIL("no error");
    } catch (const CudaError& error) {
        CHECK(error.code() == cudaErrorNoDevice);
        CHECK(error.exit_code() == ExitCode::kFailed);
    }
}

TEST_CASE("memory that is not there is exit code 3 and says what to lower") {
    try {
        OOMB_CUDA(cudaErrorMemoryAllocation);
        FAIL("no error");
    } catch (const CudaError& error) {
        CHECK(error.exit_code() == ExitCode::kDoesNotFit);
        test::check_contains(error.what(), {"out of memory", "--gpu-memory"});
    }
}

TEST_CASE("a call that succeeds raises nothing") {
    const Names names("never asked");
    const ErrorScope scope(names);
    CHECK_NOTHROW(OOMB_CUDA(cudaSuccess));
}

TEST_CASE("the innermost scope names the operation, and only while it lives") {
    const Names outer("operation 17, HBM arena: 4 GiB"), inner("operation 18");
    {
        const ErrorScope scope(outer);
        {
            const ErrorScope nested(inner);
            CHECK(message_of_failure().find("; operation 18") != std::string::npos);
        }
        CHECK(message_of_failure().ends_with("; operation 17, HBM arena: 4 GiB"));
    }
    CHECK(message_of_failure().ends_with("(invalid argument)"));
}

}  // namespace oomb::device
