import { apiVersionOf, type Resource } from '../../api/core/meta.ts';
import type { ObjectRef } from '../../api/core/refs.ts';
import { eventComponent } from '../../api/core/well-known.ts';
import { type CommandAnswer, commandEvent } from '../../api/engine/operations.ts';
import { fleetResource } from '../../api/fleet/fleet-kinds.ts';
import type { KubeClient } from '../../kube/client.ts';
import { tellEvent } from '../../kube/events.ts';

export interface OperatorEventActivities {
  /**
   * Writes an Event about a fleet object: who sent a command to its roll-out, or why a command had no effect. One Event
   * per key.
   */
  announceRollOutCommand(
    input: Omit<ReceivedCommand, 'target'> & {
      readonly kind: string;
      readonly target: ObjectRef;
      /** What the command was about. */
      readonly pod?: string;
    },
  ): Promise<void>;
}

/** A command that an operation has received, and what has become of it. */
export interface ReceivedCommand extends CommandAnswer {
  /** A signal may have any name. */
  readonly command: string;
  readonly by: string;
  /** One Event is written per key. */
  readonly key: string;
}

/** Writes an Event about an object that says who sent a command to its operation, and what has become of it. */
export async function tellOfCommand(
  kube: Pick<KubeClient, 'create'>,
  about: { readonly resource: Resource; readonly ref: Partial<ObjectRef> & Pick<ObjectRef, 'name' | 'uid'> },
  { command, by, key, ...answer }: ReceivedCommand,
  { component, atMs }: { readonly component: string; readonly atMs: number },
): Promise<void> {
  const { resource, ref } = about;
  const { kind } = resource;
  const metadata = { ...ref, resourceVersion: '', creationTimestamp: '' };
  await tellEvent(kube, {
    about: { apiVersion: apiVersionOf(resource), kind, metadata },
    component,
    ...commandEvent(command, by, answer),
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
