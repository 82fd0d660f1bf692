import { fleetResource } from '../../api/fleet-kinds.ts';
import { apiVersionOf } from '../../api/meta.ts';
import { type CommandName, commandEvent, refusedCommandEvent } from '../../api/operations.ts';
import type { ObjectRef } from '../../api/refs.ts';
import { eventComponent } from '../../api/well-known.ts';
import type { KubeClient } from './client.ts';
import { recordEvent } from './events.ts';

export interface OperatorEventActivities {
  /** Says in an Event about a fleet object who steered its roll-out, or why a command had no effect. One key, one Event. */
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

/** Tells people; nothing depends on it. */
export function operatorEventActivities({
  kube,
  now,
}: {
  readonly kube: Pick<KubeClient, 'create'>;
  readonly now: () => Date;
}): OperatorEventActivities {
  return {
    async announceRollOutCommand({ kind, target, command, by, pod, refused, key }) {
      const resource = fleetResource(kind);
      if (!resource) return;
      const about = {
        apiVersion: apiVersionOf(resource),
        kind,
        metadata: { ...target, resourceVersion: '', creationTimestamp: '' },
      };
      const text =
        refused === undefined
          ? ({ type: 'Normal', ...commandEvent(command, by, pod) } as const)
          : ({ type: 'Warning', ...refusedCommandEvent(command, by, refused) } as const);
      await recordEvent(kube, { about, component: eventComponent.rollOut, ...text, at: now(), key });
    },
  };
}
