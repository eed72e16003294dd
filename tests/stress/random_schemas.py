"""Random JSON schemas as people and generators write them: definitions, references, combinations, conditions. Every
schema that this makes has a value."""
import random

NAMES = ["name", "kind", "value", "next", "tags", "x-1", "unit", "id", "note", "size"]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.definitions = {}

    def schema(self):
        """Returns an object schema with the definitions that it refers to."""
        for name in ("Leaf", "Node")[: self.random.randrange(3)]:
            self.definitions[name] = self.object(1) if name == "Node" else self.leaf()
        made = self.object(0)
        if self.definitions:
            made["$defs"] = self.definitions
        return made

    def chance(self, percent):
        return self.random.randrange(100) < percent

    def leaf(self):
        low = self.random.randrange(-20, 20)
        return self.random.choice([
            {"type": "string", "maxLength": 8}, {"type": "integer"}, {"type": "integer", "minimum": low, "maximum": low + 30},
            {"type": "number", "exclusiveMinimum": low}, {"type": "boolean"}, {"type": "null"}, {"enum": ["red", 2, None, 1.5]},
            {"const": low}, {"type": "integer", "multipleOf": 5}, {"type": ["string", "null"]}, {"type": "string", "pattern": "^[a-c]{1,3}$"},
            {"not": {"type": ["object", "array", "integer"]}}])

    def value(self, depth):
        roll = self.random.randrange(100)
        if self.definitions and roll < 15:
            return {"$ref": "#/$defs/" + self.random.choice(sorted(self.definitions))}
        if depth < 3 and roll < 35:
            return self.object(depth + 1)
        if depth < 3 and roll < 50:
            return {"type": "array", "items": self.value(depth + 1), "maxItems": 3, **({"uniqueItems": True} if self.chance(20) else {})}
        if depth < 3 and roll < 60:
            return {"anyOf": [self.value(depth + 1), self.leaf()]}
        return self.leaf()

    def object(self, depth):
        names = self.random.sample(NAMES, self.random.randrange(5))
        made = {"type": "object", "properties": {name: self.value(depth) for name in names}}
        if names and self.chance(60):
            made["required"] = self.random.sample(names, self.random.randrange(len(names) + 1))
            if self.chance(15):
                made["required"].append("extra")
        opened = self.random.choice([None, None, None, None, True, False, {"type": "integer"}])
        if opened is False and "extra" in made.get("required", []):
            opened = None
        if opened is not None:
            made["additionalProperties"] = opened
        if self.chance(10):
            made["patternProperties"] = {"^x-": {"type": "integer"}} if "x-1" not in names else {"^y-": True}
        if len(names) > 1 and self.chance(20):
            made["dependentRequired"] = {names[1]: [names[0]], names[0]: [names[-1]]}
        if names and opened is None and self.chance(20):
            more = self.random.choice([name for name in NAMES if name not in names])
            made["allOf"] = [{"properties": {more: self.leaf()}}, {"required": [names[0]]}]
        if names and self.chance(15):
            made["if"] = {"required": [names[0]]}
            made["then"] = {"properties": {"then": self.leaf()}} if opened is not False else True
        if len(names) > 1 and opened is not False and self.chance(15):
            made["minProperties"] = self.random.randrange(1, len(names) + 2)
        if len(names) > 1 and self.chance(10):
            made["oneOf"] = [{"required": [names[0]]}, {"not": {"required": [names[0]]}}]
        return made


def random_schemas(count, seed):
    return [Maker(seed * 1_000_003 + number).schema() for number in range(count)]
