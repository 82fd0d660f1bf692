/** So that one budget does not occupy all calls of its namespace. */
const atOnce = 8;

/** Does the same with each, with a few at the same time. After a failure no more is begun, and it is thrown in the end. */
export async function inTurns<Thing>(things: readonly Thing[], work: (thing: Thing) => Promise<void>): Promise<void> {
  const left = things.values();
  const failures: unknown[] = [];
  const worker = async () => {
    for (const thing of left) {
      if (failures.length > 0) return;
      await work(thing).catch((error: unknown) => failures.push(error));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  if (failures.length > 0) throw failures[0];
}
