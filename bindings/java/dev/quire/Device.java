package dev.quire;

/**
 * What a runtime knows of one device.
 *
 * @param name by which options choose it
 * @param description model, instruction sets or compute capability
 * @param refusal why it cannot be used; empty where it can
 * @param freeBytes at the moment of asking
 */
public record Device(String name, String description, String refusal, long memoryBytes, long freeBytes) {}
