// Work on the nodes that takes its course, step by step, while something is done to the cluster at each of them.
import { setTimeout as pause } from 'node:timers/promises';
import type { Report } from './campaign.ts';
import type { Fault } from './faults.ts';
import { laps, patienceMs, seconds, type World } from './world.ts';

/** Something that can be seen of the work. */
export interface OrdealStep {
  readonly name: string;
  /** Has the work come so far, and resolves as soon as it has. */
  reach(): Promise<void>;
  /** What happens while the fault of this step lasts. It may fail for want of what is broken, and is then tried again. */
  meanwhile?(): Promise<void>;
}

/** Work in a namespace of its own, with those who witness it. */
export interface Ordeal {
  readonly namespace: string;
  /** In the order in which the work comes to them. */
  readonly steps: readonly OrdealStep[];
  /** Waits until all of it has come to its end. */
  settled(): Promise<void>;
  /** Tells the report everything that is not as promised. */
  judge(report: Report): Promise<void>;
  /** Removes it, and waits until nothing of it is left. */
  remove(): Promise<void>;
}

/** What is done at one step. */
export interface Blow {
  readonly fault: Fault;
  readonly lastsSeconds: number;
  /** What has to be seen before it ends, however long that takes. */
  readonly until?: () => Promise<void>;
}

/** Takes several ordeals through their steps side by side, hurts the cluster at each step, and judges. */
export async function through(
  world: World,
  report: Report,
  begin: readonly (() => Promise<Ordeal>)[],
  blowAt: (step: number) => Blow,
): Promise<void> {
  const lap = laps();
  const ordeals = await Promise.all(begin.map((make) => make()));
  lap('begun');
  const count = Math.max(...ordeals.map(({ steps }) => steps.length));
  for (let index = 0; index < count; index += 1) {
    const steps = ordeals.flatMap((ordeal) => ordeal.steps[index] ?? []);
    await Promise.all(steps.map((step) => step.reach()));
    lap(`step ${index + 1}`);
    const { fault, lastsSeconds, until } = blowAt(index);
    world.say(`   ${fault.name}: ${steps.map(({ name }) => name).join(', ')}`);
    report.fault(fault.name);
    const done: Promise<void>[] = [];
    try {
      await fault.inject();
      done.push(...steps.flatMap((step) => step.meanwhile?.() ?? []));
      await Promise.all([seconds(lastsSeconds), until?.()]);
    } finally {
      await fault.heal();
    }
    await Promise.all(done);
    lap('fault');
  }
  await Promise.all(ordeals.map((ordeal) => ordeal.settled()));
  lap('settled');
  await Promise.all(ordeals.map((ordeal) => ordeal.judge(report)));
  lap('judged');
  report.outcome('as it should be', ordeals.length);
  await Promise.all(ordeals.map((ordeal) => ordeal.remove()));
  lap('removed');
  world.say(`   ${lap.told()}`);
}

/** Resolves as soon as something that is witnessed right here is so. */
export async function soon(what: string, holds: () => boolean): Promise<void> {
  const endsAtMs = performance.now() + patienceMs;
  while (!holds()) {
    if (performance.now() > endsAtMs) throw new Error(`Waited ${patienceMs / 1000} s in vain for ${what}`);
    await pause(5);
  }
}
