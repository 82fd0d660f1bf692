import { ApplicationFailure } from '@temporalio/common';
import type { Resource } from '../../api/core/meta.ts';
import { type ObjectRef, qualifiedName } from '../../api/core/refs.ts';
import type { CommandAnswer } from '../../api/engine/operations.ts';
import { toFailure } from '../../kube/failures.ts';
import type { Answer } from '../../plan/fleet/permit.ts';
import type { OrderCommand } from '../../plan/fleet/roll-out-orders.ts';
import { findSignal, type HistoryReader, type SentSignal, type SignalPlace } from '../temporal/signals.ts';

/** A command whose sender may have to be looked up. */
export type UnsignedCommand = Omit<OrderCommand, 'by'>;

export interface ApplyCommandInput {
  readonly kind: string;
  readonly target: ObjectRef;
  readonly command: UnsignedCommand;
  /** Who gave it, by the sender's own account. */
  readonly by?: string;
  /** Where it can be read who sent it, and whether to this run. Absent: no signal has brought it. */
  readonly place?: SignalPlace & { readonly workflowId: string };
}

/** What has become of a command. */
export interface AppliedCommand {
  readonly by: string;
  readonly answer: CommandAnswer;
}

/** What has become of a command, and which pods may go next. Absent: that is not known. */
export interface AnsweredCommand extends AppliedCommand {
  readonly next?: Answer;
}

/** What applies commands to the objects of a kind. */
export interface CommandHolder {
  /** Resolves once the orders stand in the object. Rejects when they could not be written; a hold holds all the same. */
  apply(target: ObjectRef, command: UnsignedCommand, senderOf: () => Promise<SentSignal>): Promise<AppliedCommand>;
}

export interface CommandDependencies extends HistoryReader {
  readonly resourceOf: (kind: string) => Resource | undefined;
  /** Undefined: this watcher does not lead. */
  readonly holderOf: (kind: string) => CommandHolder | undefined;
  /** Which pods of an object may go next. Throws when that is not known. */
  readonly nextOf: (kind: string, uid: string) => Answer | undefined;
}

/** No command waits longer for the name of its sender (P-8). */
const senderMs = 2_000;

const unknownSender: SentSignal = { by: 'an operator', isReapplied: false };

/** Applies a command to its object. It may be called again with the same key: it is applied once. */
export function applyCommandActivity({
  client,
  resourceOf,
  holderOf,
  nextOf,
}: CommandDependencies): (input: ApplyCommandInput) => Promise<AnsweredCommand> {
  return async ({ kind, target, command, by, place }) => {
    const attempted = `Cannot apply the command ${command.name} to ${kind} "${qualifiedName(target)}"`;
    if (!resourceOf(kind)) {
      throw ApplicationFailure.nonRetryable(`${attempted}: no controller rolls out that kind`, 'Invalid');
    }
    const senderOf = async () => {
      if (place === undefined) return { ...unknownSender, ...(by !== undefined && { by }) };
      const found = await Promise.race([findSignal({ client }, place), tooLate()]).catch(() => unknownSender);
      return { ...found, ...(by !== undefined && { by }) };
    };
    try {
      const holder = holderOf(kind);
      if (!holder) throw ApplicationFailure.retryable(`${attempted}: this watcher is not the leader`, 'Unreachable');
      const applied = await holder.apply(target, command, senderOf);
      const next = nextOf(kind, target.uid);
      return { ...applied, ...(next && { next }) };
    } catch (error) {
      if (error instanceof Error && error.name === 'NotLeading') {
        throw ApplicationFailure.retryable(`${attempted}: ${error.message}`, 'Unreachable');
      }
      throw toFailure(error, attempted);
    }
  };
}

function tooLate(): Promise<SentSignal> {
  return new Promise((resolve) => setTimeout(() => resolve(unknownSender), senderMs).unref());
}
