package dev.quire.langchain4j;

import dev.langchain4j.model.chat.Capability;
import dev.langchain4j.model.chat.listener.ChatModelListener;
import dev.langchain4j.model.chat.request.ChatRequestParameters;
import java.util.List;
import java.util.Set;

/** Properties of a chat model that langchain4j reads before a request, from the settings. */
abstract class ConfiguredModel {
  final ChatModelSettings settings;

  ConfiguredModel(ChatModelSettings settings) {
    this.settings = settings;
  }

  public ChatRequestParameters defaultRequestParameters() {
    return settings.parameters();
  }

  public List<ChatModelListener> listeners() {
    return settings.listeners();
  }

  public Set<Capability> supportedCapabilities() {
    return Set.of(Capability.RESPONSE_FORMAT_JSON_SCHEMA);
  }
}
