package story;

import static story.Fixture.check;

import dev.quire.Alias;
import dev.quire.Answer;
import dev.quire.Cache;
import dev.quire.CacheOptions;
import dev.quire.Cancel;
import dev.quire.ChatEngine;
import dev.quire.ChatTemplate;
import dev.quire.Constraint;
import dev.quire.ConstraintKind;
import dev.quire.Conversation;
import dev.quire.Embeddings;
import dev.quire.EventQueue;
import dev.quire.Job;
import dev.quire.Matcher;
import dev.quire.Model;
import dev.quire.ModelOptions;
import dev.quire.QuireRuntime;
import dev.quire.Request;
import dev.quire.ResponseParser;
import dev.quire.RuntimeOptions;
import java.lang.reflect.Array;
import java.lang.reflect.Executable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Parameter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Passes null to each parameter of each public method and constructor. The exception begins with the name of the
 * parameter, which the class file contains.
 */
public final class NullsTest {
  /** Parameters for which null has a meaning. */
  private static final Set<String> NULLABLE = Set.of("Alias.setCache.cache", "ChatEngine.chatTemplate.chosen",
      "ChatEngine.load.cacheOptions", "ChatEngine.load.modelOptions", "ChatEngine.submit.maxNewTokens",
      "ChatTemplate.dialect.model", "Conversation.new.responseFormat", "Conversation.new.toolChoice",
      "Conversation.new.tools", "Model.cacheBytes.options", "Model.createCache.options", "ModelOptions.cancel.cancel",
      "ModelOptions.plannedCache.cache", "ModelOptions.progress.progress", "QuireRuntime.plan.cache",
      "Request.chatTemplate.chat", "Request.constraint.constraint", "Request.queue.queue");
  /** Methods all of whose parameters may be null. */
  private static final Set<String> ALL_NULLABLE = Set.of("ChatEngine.request");
  private static final int FEWEST = 120;

  private final Map<Class<?>, Object> values = new LinkedHashMap<>();
  private final List<String> failures = new ArrayList<>();
  private int checked;

  private NullsTest() {}

  public static void main(String[] arguments) throws Exception {
    Fixture.run(arguments, "null is named by every method", NullsTest::namesNull);
    Fixture.run(arguments, "null means the default where it is allowed", NullsTest::nullIsTheDefault);
  }

  private static void namesNull(Fixture with) throws Exception {
    NullsTest test = new NullsTest();
    try (ChatTemplate template = ChatTemplate.open(with.path);
        Constraint constraint = with.model.createConstraint(ConstraintKind.REGEX, "a+");
        Matcher matcher = constraint.createMatcher(); EventQueue queue = with.runtime.createQueue();
        Alias alias = with.runtime.createAlias("nulls"); ResponseParser parser = ResponseParser.create("hermes");
        Cancel cancel = new Cancel(); Job job = with.cache.submit(new Request(with.prompt).maxNewTokens(4))) {
      for (Object value : new Object[] {with.runtime, with.model, with.cache, template, constraint, matcher, queue, alias, parser,
          cancel, job, ChatEngine.of(with.model, with.cache), new Request("a"), new ModelOptions(), new CacheOptions(),
          new RuntimeOptions(), new Answer(), Conversation.of("[]"), "text", new int[] {1}, Duration.ZERO, List.of("text")}) {
        test.values.put(value.getClass(), value);
      }
      for (Object value : List.copyOf(test.values.values())) {
        test.tryClass(value.getClass(), value);
      }
      test.tryClass(Embeddings.class, null);
    }
    check(test.failures.isEmpty(), String.join("\n", test.failures));
    check(test.checked >= FEWEST, test.checked + " parameters were checked");
  }

  /** Tries what the class and the generated class below it declare. */
  private void tryClass(Class<?> type, Object target) throws Exception {
    if (!type.getPackageName().equals("dev.quire")) {
      return;
    }
    if (!type.equals(Embeddings.class)) {
      for (Executable made : type.getConstructors()) {
        tryParameters(type, made, null);
      }
    }
    for (Class<?> one = type; one.getPackageName().equals("dev.quire"); one = one.getSuperclass()) {
      for (Method method : one.getDeclaredMethods()) {
        if (Modifier.isPublic(method.getModifiers()) && !method.isSynthetic() && !method.getName().equals("equals")) {
          method.setAccessible(true);
          tryParameters(type, method, target);
        }
      }
    }
  }

  private void tryParameters(Class<?> type, Executable tried, Object target) throws Exception {
    Parameter[] parameters = tried.getParameters();
    String name = type.getSimpleName() + "." + (tried instanceof Method ? tried.getName() : "new");
    for (int i = 0; i < parameters.length; i++) {
      String parameter = parameters[i].getName();
      if (parameters[i].getType().isPrimitive() || ALL_NULLABLE.contains(name) || NULLABLE.contains(name + "." + parameter)
          || parameters[i].getType() == Cancel.class) {
        continue;
      }
      Object[] given = Arrays.stream(parameters).map(this::valueOf).toArray();
      given[i] = null;
      checked++;
      Throwable thrown = thrown(tried, target, given);
      if (!(thrown instanceof NullPointerException) || !String.valueOf(thrown.getMessage()).startsWith(parameter + ": ")) {
        failures.add(name + "." + parameter + ": " + thrown);
      }
    }
  }

  private static Throwable thrown(Executable tried, Object target, Object[] given) throws Exception {
    try {
      if (tried instanceof Method method) {
        method.invoke(target, given);
      } else {
        ((java.lang.reflect.Constructor<?>) tried).newInstance(given);
      }
      return null;
    } catch (InvocationTargetException failure) {
      return failure.getCause();
    }
  }

  private Object valueOf(Parameter parameter) {
    Class<?> type = parameter.getType();
    if (type.isPrimitive()) {
      return Array.get(Array.newInstance(type, 1), 0);
    }
    return type.isEnum() ? type.getEnumConstants()[0]
        : values.values().stream().filter(type::isInstance).findFirst().orElse(null);
  }

  private static void nullIsTheDefault(Fixture with) {
    try (Cache cache = with.model.createCache(null);
        Job job = cache.submit(Fixture.greedy(with.prompt, 4).queue(null).constraint(null).chatTemplate(null))) {
      check(with.model.cacheBytes(null) == with.model.cacheBytes(new CacheOptions()), "the bytes differ");
      check(!Fixture.drain(job, dev.quire.FinishReason.LENGTH).isEmpty(), "no text");
      check(with.runtime.plan(with.path, new ModelOptions().plannedCache(null), null).totalBytes() > 0, "an empty plan");
    }
    try (ChatEngine engine = ChatEngine.of(with.model, with.cache)) {
      Conversation asked = Conversation.of("[{\"role\": \"user\", \"content\": \"Tell me of a king.\"}]");
      check(tokens(engine, asked, engine.request().maxNewTokens(3), null) == 3, "the limit of the request is lost");
      check(tokens(engine, asked, engine.request().maxNewTokens(3), 2) == 2, "the limit of the call does not count");
      check(tokens(engine, asked, engine.request().minNewTokens(300), null) > 256, "without a limit there is one");
    }
  }

  private static long tokens(ChatEngine engine, Conversation asked, Request request, Integer maxNewTokens) {
    Answer answer = new Answer();
    try (Job job = engine.submit(asked, request, maxNewTokens)) {
      job.forEach(answer::take);
    }
    return answer.usage().newTokens();
  }
}
