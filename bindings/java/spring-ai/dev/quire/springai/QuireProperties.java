package dev.quire.springai;

import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.ConfigurationProperties;

/**
 * What an application says of its model.
 *
 * @param path the directory of the model
 * @param device where it computes; by default the best there is
 * @param cacheTokens room for so many tokens of all requests together; by default one request of full length
 * @param dialect in which it writes calls; by default as its template tells
 * @param thinks whether it may reason before it answers
 * @param temperature of requests that do not say
 * @param maxTokens of an answer, of requests that do not say
 */
@ConfigurationProperties("spring.ai.quire")
public record QuireProperties(String path, @Nullable String device, @Nullable Long cacheTokens, @Nullable String dialect,
    @Nullable Boolean thinks, @Nullable Double temperature, @Nullable Integer maxTokens) {}
