/** An in-process LLM inference engine. */
module dev.quire {
  exports dev.quire;
}
