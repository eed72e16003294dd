// Chat templates that try to escape the sandbox, run forever or exhaust memory. Each one fails with a named
// error or reads nothing of the host.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/chat/chat_fixture.h"

namespace quire::chat {
namespace {

// --- Escapes from Python's sandbox

// Each template either fails or prints text without anything of the host.
TEST(Sandbox, PythonInternalsAreUnreachable) {
  const char* const escapes[] = {
      "{{ ''.__class__.__mro__[1].__subclasses__() }}",
      "{{ ''['__class__']['__mro__'] }}",
      "{{ (''|attr('__class__'))|attr('__mro__') }}",
      "{{ ()|attr('__cla' ~ 'ss__')|attr('__base__') }}",
      "{{ [].__class__.__base__ }}",
      "{{ {}.__class__.__base__ }}",
      "{{ self.__init__.__globals__ }}",
      "{{ self._TemplateReference__context.cycler.__init__.__globals__.os }}",
      "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
      "{{ joiner.__init__.__globals__.os }}",
      "{{ namespace.__init__.__globals__.os }}",
      "{{ lipsum.__globals__['os'].popen('id').read() }}",
      "{{ request.application.__globals__ }}",
      "{{ config.items() }}",
      "{{ url_for.__globals__ }}",
      "{{ get_flashed_messages.__globals__ }}",
      "{{ range.__init__.__globals__ }}",
      "{{ dict.__base__.__subclasses__() }}",
      "{{ strftime_now.__code__.co_code }}",
      "{{ strftime_now.__closure__[0].cell_contents }}",
      "{% macro m() %}{% endmacro %}{{ m.__init__.__globals__ }}",
      "{% macro m() %}{% endmacro %}{{ m._func.__globals__ }}",
      "{% for x in [1] %}{{ loop.__init__.__globals__ }}{% endfor %}",
      "{{ '{0.__class__.__mro__}'.format('') }}",
      "{{ '{0[__class__].__mro__}'.format('') }}",
      "{{ '{x.__class__.__base__}'.format_map({'x': ''}) }}",
      "{{ ('{0.__cla' ~ 'ss__.__mro__}').format(1) }}",
      "{{ '%(x.__class__)s' % {'x': 1} }}",
      "{{ [''] | map(attribute='__class__.__mro__') | list }}",
      "{{ [''] | map('attr', '__class__') | map('attr', '__mro__') | list }}",
      "{{ [''] | selectattr('__class__.__mro__') | list }}",
      "{{ [''] | sort(attribute='__class__.__mro__') }}",
      "{{ [''] | groupby('__class__.__mro__') }}",
      "{{ [{'a': ''}] | sum(attribute='a.__class__.__mro__') }}",
      "{{ messages.append(1) }}",
      "{{ messages['append'](1) }}",
      "{{ (messages | attr('append'))(1) }}",
      "{{ {}.update({'a': 1}) }}",
      "{{ {}.setdefault('a', 1) }}",
      "{{ [3, 1].sort() }}",
      "{{ [1].pop() }}",
      "{{ ''.encode('utf-8') }}",
      "{{ ''.translate({}) }}",
      "{{ (1).real.denominator.__class__.x }}",
      "{{ none.__class__.x }}",
      "{{ eval('1') }}",
      "{{ open('/etc/passwd').read() }}",
      "{{ __import__('os') }}",
      "{{ __builtins__.open }}",
      "{% include '/etc/passwd' %}",
      "{% import 'os' as os %}",
      "{% extends '/etc/passwd' %}",
      "{% from 'os' import system %}",
      "{% debug %}",
      "{% do messages.append(1) %}",
      "{{ messages | pprint }}",
      "{{ messages | random }}",
  };
  for (const char* escape : escapes) {
    const TemplateError error = error_of(escape);
    EXPECT_NE(error.fault(), TemplateFault::raised) << escape;
    EXPECT_NE(error.fault(), TemplateFault::limit) << escape;
  }
}

TEST(Sandbox, InternalNamesArePrintedAsNothing) {
  for (const char* source :
       {"{{ ''.__class__ }}", "{{ [].__class__ }}", "{{ {}.__init__ }}", "{{ range.__globals__ }}",
        "{{ raise_exception.__globals__ }}", "{{ ''|attr('__class__') }}", "{{ '{0.__class__}'.format('') }}",
        "{{ ''['__class__'] }}"}) {
    EXPECT_EQ(text_of(source), "") << source;
  }
}

TEST(Sandbox, AKeyMayHaveAnyName) {
  const Json variables = {{"x", {{"__class__", "a key"}, {"append", "another"}}}};
  EXPECT_EQ(text_of("{{ x['__class__'] }}, {{ x.append }}", variables), "a key, another");
}

// --- Unbounded work

std::string repeated(const std::string& text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

TEST(Limits, UnboundedWorkFailsWithANamedLimit) {
  const std::string nested_loops =
      repeated("{% for i in range(100000) %}", 20) + "x" + repeated("{% endfor %}", 20);
  const std::vector<std::string> sources = {
      nested_loops,
      "{% for i in range(100000) %}{% for j in range(100000) %}{{ i * j }}{% endfor %}{% endfor %}",
      "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
      "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
      "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}",
      "{% for x in [1] recursive %}{{ loop([x]) }}{% endfor %}",
      "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = ns.s.replace('a', 'aa') %}{% "
      "endfor %}",
      "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = ns.s * 9 %}{% endfor %}",
      "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = [ns.s, ns.s] | join %}{% endfor "
      "%}",
      "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = '%s%s' % (ns.s, ns.s) %}{% "
      "endfor %}",
      "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = '{0}{0}'.format(ns.s) %}{% "
      "endfor %}",
      "{% set ns = namespace(s=[1]) %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{% set ns = namespace(s=[1]) %}{% for i in range(64) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ "
      "ns.s }}",
      "{% set ns = namespace(s=[1]) %}{% for i in range(64) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ "
      "ns.s|tojson }}",
      "{% set ns = namespace(s=(1,)) %}{% for i in range(64) %}{% set ns.s = (ns.s, ns.s) %}{% endfor %}{{ "
      "ns.s == ns.s[:] }}"
      "{{ {ns.s: 1} }}",
      "{% set ns = namespace(s=[]) %}{% for i in range(9999) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}",
      "{% set ns = namespace(s=[]) %}{% for i in range(9999) %}{% set ns.s = [ns.s] %}{% endfor %}{{ "
      "ns.s|tojson }}",
      "{% set ns = namespace(s=[], t=[]) %}{% for i in range(9999) %}{% set ns.s = [ns.s] %}{% set ns.t = "
      "[ns.t] %}{% endfor %}"
      "{{ ns.s == ns.t }}",
      "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}",
      "{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns.me }}",
      "{{ 'x' * 1000000000 }}",
      "{{ 'x' * 9000000000000000000 }}",
      "{{ [0] * 9000000000000000000 }}",
      "{{ 'x'.center(1000000000) }}",
      "{{ 'x'.zfill(1000000000) }}",
      "{{ '%1000000000d' % 1 }}",
      "{{ '{:1000000000}'.format(1) }}",
      "{{ '{:{}}'.format(1, 1000000000) }}",
      "{{ 'a' | indent(1000000000) }}",
      "{{ range(1000000000) | list }}",
      "{{ range(-9223372036854775807, 9223372036854775807) | length }}",
      "{% for i in range(100000) %}{{ messages | tojson(indent=1000) }}{% endfor %}",
      "{% for i in range(100000) %}{{ 'x' * 16000000 }}{% endfor %}",
      "{% for i in range(100000) %}{% set x = ('x' * 1000000).upper() %}{% endfor %}",
      "{% for i in range(100000) %}{% set x = 'x' * 1000000 in 'y' * 1000000 %}{% endfor %}",
      "{{ ('\xc3\xa9' * 4000000)[::2][::2] }}{% set s = '\xc3\xa9' * 4000000 %}{% for c in range(99999) %}{{ "
      "s[c] }}{% endfor %}",
      "{{ range(100000) | map('string') | join | list | sort | unique | list | groupby('x') }}{% for i in "
      "range(100000) %}"
      "{{ range(100000) | sum }}{% endfor %}",
      "{{ strftime_now('%c' * 100000) }}",
      "{{ x" + repeated(".a", 5000) + " }}",
  };
  for (const std::string& source : sources) {
    const TemplateError error = error_of(source);
    EXPECT_TRUE(error.fault() == TemplateFault::limit || error.fault() == TemplateFault::syntax ||
                error.fault() == TemplateFault::failed)
        << source.substr(0, 100) << ": " << error.what();
  }
  EXPECT_EQ(error_of(nested_loops).text(), "the rendering needs more steps than its limit");
  EXPECT_EQ(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").text(),
            "the rendering needs more depth than its limit");
  EXPECT_EQ(error_of("{{ 'x' * 1000000000 }}").text(), "the rendering needs more text bytes than its limit");
}

TEST(Limits, DeeplyNestedSourcesAreRefusedByTheParser) {
  const std::vector<std::string> sources = {
      "{{ " + repeated("(", 100000) + "1" + repeated(")", 100000) + " }}",
      "{{ " + repeated("[", 100000) + repeated("]", 100000) + " }}",
      "{{ " + repeated("{1:", 100000) + "1" + repeated("}", 100000) + " }}",
      "{{ " + repeated("not ", 100000) + "1 }}",
      "{{ " + repeated("-", 100000) + "1 }}",
      "{{ 1" + repeated(" + 1", 100000) + " }}",
      "{{ 1" + repeated(" if 1 else 1", 80000) + " }}",
      "{{ 1" + repeated(" or 1", 100000) + " }}",
      "{{ x" + repeated("[0]", 100000) + " }}",
      "{{ x" + repeated("()", 100000) + " }}",
      "{{ x" + repeated("|list", 100000) + " }}",
      "{{ x" + repeated(" is none", 100000) + " }}",
      repeated("{% if 1 %}", 40000) + repeated("{% endif %}", 40000),
      repeated("{% for x in y %}", 30000) + repeated("{% endfor %}", 30000),
      repeated("{% set x %}", 40000) + repeated("{% endset %}", 40000),
      repeated("{% macro a() %}", 30000) + repeated("{% endmacro %}", 30000),
      "{% set " + repeated("(", 100000) + "a" + repeated(")", 100000) + " = 1 %}",
  };
  for (const std::string& source : sources) {
    EXPECT_EQ(error_of(source).fault(), TemplateFault::syntax) << source.substr(0, 60);
  }
  EXPECT_THROW(ChatTemplate::compile(std::string(size_t{2} << 20, 'x')), Error);
}

TEST(Limits, StepsGrowWithTheConversation) {
  const std::string source = "{% for m in messages %}{{ m.role ~ ': ' ~ m.content | trim }}\n{% endfor %}";
  Json variables;
  for (int i = 0; i < 50000; ++i)
    variables["messages"].push_back({{"role", "user"}, {"content", "word and word"}});
  EXPECT_GT(render(source, variables).num_steps, TemplateLimits{}.max_steps);
}

// --- Errors

TEST(TemplateErrors, HaveAPositionAndOneLine) {
  const TemplateError error = error_of("a\n  {{ none + 1 }}");
  EXPECT_EQ(error.position().line, 2);
  EXPECT_EQ(error.position().column, 6);
  EXPECT_EQ(std::string(error.what()),
            "chat template, line 2, column 6: None and int cannot be operands of '+'");
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  EXPECT_EQ(error_of("{% if %}").code(), ErrorCode::format);
  const TemplateError raised = error_of("{{ raise_exception('two\nlines') }}");
  EXPECT_EQ(raised.text(), "two\nlines");
  EXPECT_EQ(std::string(raised.what()).find('\n'), std::string::npos) << raised.what();
}

TEST(TemplateErrors, ATextThatIsNotUtf8IsRefused) {
  EXPECT_THROW(ChatTemplate::compile("{{ '\xff' }}"), Error);
}

}  // namespace
}  // namespace quire::chat
