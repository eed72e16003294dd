#!/usr/bin/env python3
"""Writes a small multiple-choice task for lm-evaluation-harness: words in short sentences, four choices each.

usage: evaluation_task.py FOLDER [NUMBER_OF_ITEMS]. Then compare the server with transformers:

  lm_eval --include_path FOLDER --tasks quire_words --model local-completions \\
    --model_args model=NAME,base_url=http://127.0.0.1:8080/v1/completions,tokenizer=DIRECTORY
  lm_eval --include_path FOLDER --tasks quire_words --model hf --model_args pretrained=DIRECTORY,dtype=float32 --device cpu
"""
import json
import pathlib
import sys

TASK = "quire_words"

CAPITALS = """France Paris, Italy Rome, Spain Madrid, Germany Berlin, Norway Oslo, Sweden Stockholm, Finland Helsinki,
Denmark Copenhagen, Poland Warsaw, Austria Vienna, Hungary Budapest, Greece Athens, Portugal Lisbon, Ireland Dublin,
Belgium Brussels, Russia Moscow, Ukraine Kyiv, Turkey Ankara, Egypt Cairo, Kenya Nairobi, Nigeria Abuja, Ghana Accra,
Ethiopia Ababa, Morocco Rabat, Tunisia Tunis, Iran Tehran, Iraq Baghdad, Syria Damascus, Lebanon Beirut, Jordan Amman,
Japan Tokyo, China Beijing, India Delhi, Nepal Kathmandu, Thailand Bangkok, Vietnam Hanoi, Indonesia Jakarta,
Philippines Manila, Malaysia Lumpur, Australia Canberra, Canada Ottawa, Mexico Mexico, Cuba Havana, Peru Lima,
Chile Santiago, Ecuador Quito, Bolivia Sucre, Brazil Brasilia, Argentina Aires, Uruguay Montevideo"""
OPPOSITES = """hot cold, big small, high low, fast slow, old new, young elderly, wet dry, hard soft, light dark, heavy weightless,
rich poor, strong weak, happy sad, good bad, early late, full empty, open closed, clean dirty, loud quiet, near far,
thick thin, wide narrow, deep shallow, long short, sweet bitter, rough smooth, sharp blunt, cheap expensive, brave cowardly,
kind cruel, polite rude, true false, right wrong, up down, left right, in out, over under, before after, always never,
day night, summer winter, north south, east west, friend enemy, love hate, war peace, life death, begin end, buy sell,
give take"""
PAST = """go went, see saw, come came, take took, give gave, make made, know knew, think thought, find found, tell told,
feel felt, leave left, keep kept, begin began, bring brought, write wrote, sit sat, stand stood, lose lost, pay paid,
meet met, run ran, speak spoke, read read, spend spent, grow grew, win won, teach taught, buy bought, send sent, build built,
fall fell, cut cut, sell sold, draw drew, break broke, catch caught, choose chose, drive drove, eat ate, fly flew,
forget forgot, hide hid, hold held, ride rode, ring rang, sing sang, sleep slept, swim swam, throw threw"""
HOMES = """fish water, bird sky, lion savanna, camel desert, whale ocean, bee hive, dog kennel, horse stable, pig sty, ant nest,
teacher school, doctor hospital, judge court, farmer farm, baker bakery, sailor ship, pilot plane, soldier army, priest church,
actor theatre, miner mine, monk monastery, king castle, librarian library, cook kitchen, gardener garden, student classroom,
prisoner prison, nurse clinic, banker bank, bear forest, penguin ice, monkey jungle, frog pond, crab beach, goat mountain,
spider web, cow barn, rabbit burrow, owl tree, waiter restaurant, tailor shop, painter studio, driver car, singer stage,
fisherman boat, mechanic garage, chemist laboratory, astronaut space, shepherd meadow"""

SENTENCES = (("The capital of {} is the city of", CAPITALS), ("The opposite of the word {} is the word", OPPOSITES),
             ("Today I {}. Yesterday I", PAST), ("The right place for a {} is the", HOMES))


def items(number):
    """Returns the items. The wrong choices are right ones of other items of the same sentence."""
    made = []
    for sentence, words in SENTENCES:
        pairs = [pair.split() for pair in words.replace("\n", " ").split(",")]
        for i, (subject, right) in enumerate(pairs):
            wrong = [pairs[(i + step) % len(pairs)][1] for step in (7, 19, 31)]
            choices = [" " + word for word in wrong]
            choices.insert(i % 4, " " + right)
            made.append({"query": sentence.format(subject), "choices": choices, "gold": i % 4})
    stride = max(1, len(made) // number)
    return made[::stride][:number]


def write(folder, number):
    """Writes the task to a folder, for --include_path."""
    data = folder / "items.jsonl"
    data.write_text("".join(json.dumps(item) + "\n" for item in items(number)), encoding="utf-8")
    (folder / f"{TASK}.yaml").write_text(f"""task: {TASK}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: query
doc_to_choice: choices
doc_to_target: gold
target_delimiter: ""
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}, {{metric: acc_norm, aggregation: mean, higher_is_better: true}}]
""", encoding="utf-8")


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]).absolute(), int(sys.argv[2]) if len(sys.argv) > 2 else 200)
