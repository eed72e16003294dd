package dev.quire;

/**
 * What a step of a model costs at least; attention comes on top and grows with the context.
 *
 * @param weightBytes that every step reads once
 * @param tokenOps multiplications and additions in the layers for one token
 * @param logitOps those in the last matrix for the logits of one token
 */
public record StepCost(long weightBytes, long tokenOps, long logitOps) {}
