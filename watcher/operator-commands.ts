/** Operator commands as an annotation of the object, for users who may not signal workflows. */

import { jsonPointer } from '../api/base/json.ts';
import { apiVersionOf, type KubeObject, type ObjectMeta, type Resource } from '../api/core/meta.ts';
import { eventComponent, windlassAnnotation } from '../api/core/well-known.ts';
import { type CommandName, commandEvent, parseCommandText, unreadableCommandEvent } from '../api/engine/operations.ts';
import type { KubeClient } from '../kube/client.ts';
import { type EventBudget, tellEvent } from '../kube/events.ts';
import type { PassResult } from '../kube/keyed-queue.ts';
import { unlessMovedOn } from '../kube/moved-on.ts';
import type { Starter, WantedOperation } from './starter.ts';

/** The receiver of a command. */
export type Commanded =
  /** A run that exists, as soon as Temporal knows the current state of the object. */
  | {
      readonly kind: 'running';
      readonly workflowId: string;
      /** UID of the request that it is for, where several requests use the same workflow ID one after the other. */
      readonly request?: string;
    }
  /** A run that is started for it if there is none. */
  | { readonly kind: 'started'; readonly operation: WantedOperation }
  /** A run that may not be started yet: the annotation stays until then. */
  | { readonly kind: 'later' }
  /** Not Temporal: the command is carried out here. False: that could not be written yet, and the annotation stays. */
  | { readonly kind: 'here'; readonly obey: (command: AnnotatedCommand) => Promise<boolean> }
  /** There is no receiver, and why: it is refused. */
  | { readonly kind: 'nobody'; readonly why: string };

/** A command from the annotation of an object. */
export interface AnnotatedCommand {
  readonly name: CommandName;
  readonly target?: string;
  readonly by: string;
  /** The same for each delivery. */
  readonly id: string;
}

export interface CommandDependencies {
  readonly kube: Pick<KubeClient, 'patch' | 'create'>;
  readonly starter: Pick<Starter, 'command' | 'isSent'>;
  readonly commandEvents: CommandEvents;
}

/** How many Events about its commands an object gets: anybody may edit an annotation without end. */
export type CommandEvents = Pick<EventBudget, 'take'>;

/** Whether the annotation of this object contains a command. */
export function hasCommand({ metadata }: Pick<KubeObject, 'metadata'>): boolean {
  return metadata.annotations?.[windlassAnnotation.command] !== undefined;
}

/**
 * Delivers the command in the annotation of an object, and then removes the annotation. What is no valid command, or has no
 * receiver, is removed and refused by an Event, as far as there is budget for it. The ID of a command makes a second delivery harmless. Returns when to retry if there is no run yet to
 * receive it.
 */
export async function passOnCommand(
  object: Pick<KubeObject, 'metadata'>,
  resource: Resource,
  understood: readonly CommandName[],
  receiverOf: (command: Pick<AnnotatedCommand, 'name'>) => Commanded,
  { kube, starter, commandEvents }: CommandDependencies,
): Promise<PassResult | undefined> {
  const { annotations, namespace = '', name, uid } = object.metadata;
  const text = annotations?.[windlassAnnotation.command];
  if (text === undefined) return undefined;
  const command = parseCommandText(text, understood);
  const { by, at } = commander(object);
  const receiver = command && receiverOf(command);
  if (command && receiver) {
    const delivery = await deliver({ ...command, by, id: `${uid}/${at}/${text}` }, receiver, starter);
    if (delivery.kind === 'stays') return delivery.again;
  }
  const path = jsonPointer('metadata', 'annotations', windlassAnnotation.command);
  const removal = [
    { op: 'test', path: '/metadata/uid', value: uid },
    { op: 'test', path, value: text },
    { op: 'remove', path },
  ];
  const removed = await unlessMovedOn(kube.patch(resource, { namespace, name }, 'json', removal));
  const refusal =
    command === undefined
      ? unreadableCommandEvent(text, understood)
      : receiver?.kind === 'nobody' && commandEvent(command.name, by, { refused: receiver.why });
  if (removed && refusal && commandEvents.take(object, refusal)) {
    const about = { apiVersion: apiVersionOf(resource), kind: resource.kind, metadata: object.metadata };
    await tellEvent(kube, { about, component: eventComponent.commands, atMs: Date.now(), ...refusal });
  }
  return undefined;
}

/** Whether the command was delivered or stays, and when to retry. */
type Delivery = { readonly kind: 'delivered' } | { readonly kind: 'stays'; readonly again?: PassResult };

async function deliver(
  command: AnnotatedCommand,
  commanded: Commanded,
  starter: CommandDependencies['starter'],
): Promise<Delivery> {
  const { name, ...payload } = command;
  switch (commanded.kind) {
    case 'here':
      // the change triggers the next reconcile
      return { kind: (await commanded.obey(command)) ? 'delivered' : 'stays' };
    case 'started':
      await starter.command(commanded.operation.workflowId, name, payload, commanded.operation);
      return { kind: 'delivered' };
    case 'running': {
      const { workflowId, request } = commanded;
      if (!starter.isSent(workflowId)) return { kind: 'stays', again: { againInMs: 500 } };
      await starter.command(workflowId, name, { ...payload, ...(request !== undefined && { request }) });
      return { kind: 'delivered' };
    }
    case 'later':
      return { kind: 'stays' };
    case 'nobody':
      return { kind: 'delivered' };
  }
}

/**
 * Who wrote the annotation and when, as far as the object shows: the field manager, for example `kubectl-annotate`. The
 * client chooses that name, so it tells people where to ask, and proves nothing.
 */
function commander({ metadata }: Pick<KubeObject, 'metadata'>): { readonly by: string; readonly at: string } {
  const owner = metadata.managedFields?.find(ownsCommand);
  const by = owner?.manager === undefined ? 'an annotation' : `annotation of ${owner.manager}`;
  return { by, at: owner?.time ?? '' };
}

/** The metadata that is needed to deliver a command: the command, and who wrote it. Empty without a command. */
export function commandIn({
  annotations,
  managedFields,
}: ObjectMeta): Pick<ObjectMeta, 'annotations' | 'managedFields'> {
  const command = annotations?.[windlassAnnotation.command];
  if (command === undefined || command.length > longestCommand) return {};
  const owner = managedFields?.find(ownsCommand);
  return {
    annotations: { [windlassAnnotation.command]: command },
    ...(owner && { managedFields: [{ ...owner, fieldsV1: ofCommand }] }),
  };
}

/** Characters of a command with its target. */
const longestCommand = 1_024;

/** Of all that the manager of a command owns only the command. */
const ofCommand = { 'f:metadata': { 'f:annotations': { [`f:${windlassAnnotation.command}`]: {} } } };

function ownsCommand({ fieldsV1 }: NonNullable<ObjectMeta['managedFields']>[number]): boolean {
  return JSON.stringify(fieldsV1 ?? {}).includes(`"f:${windlassAnnotation.command}"`);
}
