// Compiles {fmt} once. Its header-only form would compile all formatting code into every file that reports an
// error, which multiplies build times. The instantiations are those that fmt/core.h and fmt/format.h leave to
// a library.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template void buffer<char>::append(const char*, const char*);
template void vformat_to(buffer<char>&, string_view, basic_format_args<buffer_context<char>>, locale_ref);
template dragonbox::decimal_fp<float> dragonbox::to_decimal(float) noexcept;
template dragonbox::decimal_fp<double> dragonbox::to_decimal(double) noexcept;
template thousands_sep_result<char> thousands_sep_impl(locale_ref);
template char decimal_point_impl(locale_ref);
template std::locale locale_ref::get<std::locale>() const;

}  // namespace detail
FMT_END_NAMESPACE
