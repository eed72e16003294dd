package dev.quire.springai;

import dev.quire.CacheOptions;
import dev.quire.ChatEngine;
import dev.quire.ModelOptions;
import org.springframework.ai.model.SpringAIModelProperties;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/**
 * Models of an application that sets spring.ai.quire.path to a directory. The application can replace each
 * bean.
 */
@AutoConfiguration
@EnableConfigurationProperties(QuireProperties.class)
@ConditionalOnProperty("spring.ai.quire.path")
public class QuireAutoConfiguration {
  private static final String NAME = "quire";

  /** Creates the configuration; Spring does this. */
  public QuireAutoConfiguration() {}

  /** Loads the engine once; it is closed with the application. */
  @Bean(destroyMethod = "close")
  @ConditionalOnMissingBean
  public ChatEngine quireChatEngine(QuireProperties properties) {
    ModelOptions modelOptions = new ModelOptions();
    CacheOptions cacheOptions = new CacheOptions();
    if (properties.device() != null) {
      modelOptions.device(properties.device());
    }
    if (properties.cacheTokens() != null) {
      cacheOptions.maxTokens(properties.cacheTokens());
    }
    ChatEngine engine = ChatEngine.load(properties.path(), modelOptions, cacheOptions);
    if (properties.dialect() != null) {
      engine.dialect(properties.dialect());
    }
    return engine.thinks(properties.thinks() == null || properties.thinks());
  }

  /** Creates the chat model, with the defaults of the properties. */
  @Bean
  @ConditionalOnMissingBean
  @ConditionalOnProperty(name = SpringAIModelProperties.CHAT_MODEL, havingValue = NAME, matchIfMissing = true)
  public QuireChatModel quireChatModel(ChatEngine engine, QuireProperties properties) {
    return new QuireChatModel(engine, QuireChatOptions.builder().model(properties.path())
        .temperature(properties.temperature()).maxTokens(properties.maxTokens()).build());
  }

  /** Creates the embedding model. */
  @Bean
  @ConditionalOnMissingBean
  @ConditionalOnProperty(name = SpringAIModelProperties.EMBEDDING_MODEL, havingValue = NAME, matchIfMissing = true)
  public QuireEmbeddingModel quireEmbeddingModel(ChatEngine engine) {
    return new QuireEmbeddingModel(engine);
  }

  /** Meters of an application with Micrometer; Boot binds them to its registry. */
  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass(name = "io.micrometer.core.instrument.binder.MeterBinder")
  static class Metrics {
    @Bean
    @ConditionalOnMissingBean
    QuireMetrics quireMetrics(ChatEngine engine) {
      return new QuireMetrics(engine);
    }
  }
}
