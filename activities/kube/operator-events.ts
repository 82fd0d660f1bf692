import { apiVersionOf, type Resource } from '../../api/core/meta.ts';
import type { ObjectRef } from '../../api/core/refs.ts';
import { eventComponent } from '../../api/core/well-known.ts';
import { type CommandName, commandEvent, refusedCommandEvent } from '../../api/engine/operations.ts';
import { fleetResource } from '../../api/fleet/fleet-kinds.ts';
import type { KubeClient } from '../../kube/client.ts';
import { tellEvent } from '../../kube/events.ts';

export interface OperatorEventActivities {
  /**
   * Writes an Event about a fleet object: who sent a command to its roll-out, or why a command had no effect. One Event
   * per key.
   */
  announceRollOutCommand(input: {
    readonly kind: string;
    readonly target: ObjectRef;
    readonly command: CommandName;
    readonly by: string;
    readonly pod?: string;
    /** Why the command had no effect. */
    readonly refused?: string;
    readonly key: string;
  }): Promise<void>;
}

/** A command that an operation has received. */
export interface ReceivedCommand {
  readonly command: CommandName;
  readonly by: string;
  /** The target of the command: a container, a pod. */
  readonly target?: string | undefined;
  /** One Event is written per key. */
  readonly key: string;
}

/**
 * Writes an Event about an object that names who sent a command to its operation. `refused` says why the command had no
 * effect; absent: it took effect.
 */
export async function tellOfCommand(
  kube: Pick<KubeClient, 'create'>,
  about: { readonly resource: Resource; readonly ref: Partial<ObjectRef> & Pick<ObjectRef, 'name' | 'uid'> },
  { command, by, target, refused, key }: ReceivedCommand & { readonly refused?: string | undefined },
  { component, atMs }: { readonly component: string; readonly atMs: number },
): Promise<void> {
  const { resource, ref } = about;
  const { kind } = resource;
  const metadata = { ...ref, resourceVersion: '', creationTimestamp: '' };
  const text =
    refused === undefined
      ? ({ type: 'Normal', ...commandEvent(command, by, target) } as const)
      : ({ type: 'Warning', ...refusedCommandEvent(command, by, refused) } as const);
  await tellEvent(kube, {
    about: { apiVersion: apiVersionOf(resource), kind, metadata },
    component,
    ...text,
    atMs,
    key,
  });
}

/** Writes Events for people; nothing depends on them. */
export function operatorEventActivities({
  kube,
  now,
}: {
  readonly kube: Pick<KubeClient, 'create'>;
  readonly now: () => Date;
}): OperatorEventActivities {
  return {
    async announceRollOutCommand({ kind, target: ref, pod, ...heard }) {
      const resource = fleetResource(kind);
      if (!resource) return;
      const component = eventComponent.rollOut;
      await tellOfCommand(kube, { resource, ref }, { ...heard, target: pod }, { component, atMs: now().getTime() });
    },
  };
}
