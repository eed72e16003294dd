package dev.quire.springai;

import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.ConfigurationProperties;

/**
 * Properties of an application for its model.
 *
 * @param path the directory of the model
 * @param device the device that computes; by default that of the library
 * @param cacheTokens number of tokens of all requests together; by default one request of full length
 * @param dialect the format of calls; by default that of the template
 * @param thinks whether the model may reason before it answers
 * @param temperature the default for requests
 * @param maxTokens the default maximum tokens of an answer
 */
@ConfigurationProperties("spring.ai.quire")
public record QuireProperties(String path, @Nullable String device, @Nullable Long cacheTokens, @Nullable String dialect,
    @Nullable Boolean thinks, @Nullable Double temperature, @Nullable Integer maxTokens) {}
