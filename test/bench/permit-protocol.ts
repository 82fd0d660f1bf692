/**
 * What the permit protocol costs for many items, played in memory: run by hand,
 * `node test/bench/permit-protocol.ts [items] [ready after ms]`.
 */
import { Play, plain, quick } from '../support/permit-play/play.ts';

const [items = 5_000, readyAfterMs = 1_000] = process.argv.slice(2).map(Number);
/** As long as a name and a UID with what stands around them: `{"name":"shop-web-0001","uid":"..."}`. */
const uidOf = (index: number) => `shop-web-${index} 0f8fad5b-d9cb-469f-a165-70867728950e`.padEnd(72);

function roll(measures: boolean): Play {
  const fleet = { size: items, maxUnavailable: items, readyAfterMs, uidOf };
  const play = new Play({ ...plain, fleet, delays: { ...quick, drainMs: [0], writeMs: [5] } });
  play.temporal.measures = measures;
  play.cluster.edit();
  const isOver = () => play.isRolledOut && play.temporal.runId === undefined;
  for (let round = 0; round < 100_000 && !isOver(); round++) play.clock.elapse(20);
  return play;
}

const { counts } = roll(true).temporal;
const before = process.cpuUsage();
const { temporal, leader, clock } = roll(false);
const { user, system } = process.cpuUsage(before);
const batches = counts.activities - counts.questions;
const runs = leader?.runs ?? { passes: 0, answers: 0 };

for (const [what, value] of Object.entries({
  'billable actions': temporal.billed,
  questions: counts.questions,
  batches,
  'signals and starts': counts.signals + counts.starts,
  heartbeats: counts.heartbeats,
  'workflow tasks': counts.tasks,
  'planner runs in passes': runs.passes,
  'planner runs for answers': runs.answers,
  'bytes of payloads': counts.bytes,
  'bytes of the longest question': counts.longestQuestion,
  'virtual ms': clock.nowMs,
  'ms of CPU, the simulation included': Math.round((user + system) / 1_000),
}))
  process.stdout.write(`${what}: ${value}\n`);
