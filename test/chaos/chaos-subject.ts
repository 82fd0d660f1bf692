// What is watched and judged while things break: one interface for the work of every kind.

import { setTimeout as pause } from 'node:timers/promises';
import type { PerOperation } from '../../api/operations.ts';
import { waitFor } from '../support/wait.ts';
import type { Wired } from './cables.ts';
import { notJudged, type Report } from './campaign.ts';
import type { Random } from './random.ts';
import { patienceMs, type World } from './world.ts';

/** What can fail, as partsOf names it. */
export type Role = Wired | 'webhook';

/** A role that fails in one way at each step of a subject. */
export interface Failure {
  readonly way: 'kill' | 'freeze' | 'cut';
  readonly role: Role;
  /** So many, or drawn each time between two numbers. */
  readonly lastsSeconds: number | readonly [least: number, most: number];
  /** A second watcher takes over, and the two fail in turns. */
  readonly secondWatcher?: true;
}

/** A moment of the work at which a fault can be put. */
export interface SubjectStep {
  readonly name: string;
  /** Takes the work to this step, and resolves as soon as it is there. The first one begins the operations. */
  reach(): Promise<void>;
  /** What happens while the fault of this step lasts. It may fail because of the fault, and is then tried again. */
  meanwhile?(): Promise<void>;
}

/** What speaks against a subject, by what its witnesses have recorded. */
export interface Objections {
  /** Has gone wrong, and stays so. */
  readonly lasting: readonly string[];
  /** Is not as promised now, and may only be late. */
  readonly pending: readonly string[];
}

/** Work in a namespace of its own, with its witnesses: the watch, the runtime, the audit log, what containers wrote down. */
export interface ChaosSubject {
  readonly namespace: string;
  /** In the order in which the work comes to them. */
  readonly steps: readonly SubjectStep[];
  /** The workflow IDs of its operations by type, as far as its objects are known by now. */
  workflows(): Partial<PerOperation<readonly string[]>>;
  /** Lets go of what is held, and waits until all operations have ended. */
  settled(): Promise<void>;
  objections(): Promise<Objections>;
  /** Tells the report how it ended, in numbers. */
  summarise(report: Report): void;
  /** Writes down what is known, for people, about that to which there was an objection. */
  keepEvidence?(): Promise<void>;
  /** Removes it, and waits until nothing of it is left. */
  remove(): Promise<void>;
}

/** What a subject has to know of the faults that it goes through. */
export interface Prepared {
  /** How often a process that had begun an act may die: such an act may be begun once more. */
  readonly deaths: number;
  readonly random: Random;
}

/** The row of a kind of work in the table of subjects. */
export interface SubjectKind {
  /** The first word of its scenarios: `images`. */
  readonly name: string;
  /** What it is, in a few words. */
  readonly about: string;
  /** Makes everything that the operations need, with their witnesses. */
  prepare(world: World, prepared: Prepared): Promise<ChaosSubject>;
  /** The same for a run beside other kinds, smaller, in which so many faults follow each other. Absent: no different. */
  prepareBeside?(world: World, prepared: Prepared, faults: number): Promise<ChaosSubject>;
  /** What fails at each step in the campaign, one scenario for each. */
  readonly endures: readonly Failure[];
  /** A feature gate that the watcher needs for it, `SidecarTerminator=true`, beside the default ones. */
  readonly featureGate?: string;
  /** The watcher looks at everything every few seconds: nobody waits a minute for what only that finds. */
  readonly hurried?: true;
}

/** Waits for what may only be late, and reports everything that is not as promised. */
export async function judge(subject: ChaosSubject, report: Report, deadlineMs = 300_000): Promise<void> {
  let found: Objections | undefined;
  let late: unknown;
  const isSettled = async (): Promise<boolean> => {
    found = await subject.objections();
    return found.pending.length === 0;
  };
  await waitFor(`nothing to object to in ${subject.namespace}`, isSettled, { deadlineMs }).catch((error: unknown) => {
    late = error;
  });
  const texts = [...(found?.lasting ?? []), ...(found?.pending ?? [])];
  // without a verdict there is no acquittal
  if (late !== undefined && texts.length === 0) report.violation(`${notJudged}: ${String(late)}`);
  for (const text of texts) report.violation(text);
  if (texts.length > 0) await subject.keepEvidence?.();
}

/** Resolves as soon as something that is witnessed right here is so. */
export async function soon(what: string, holds: () => boolean): Promise<void> {
  const endsAtMs = performance.now() + patienceMs;
  while (!holds()) {
    if (performance.now() > endsAtMs) throw new Error(`Waited ${patienceMs / 1000} s in vain for ${what}`);
    await pause(5);
  }
}
