/** Commands of operators that come as an annotation of the object, for those who may not signal workflows. */

import { jsonPointer } from '../api/base/json.ts';
import { apiVersionOf, type KubeObject, type ObjectMeta, type Resource } from '../api/core/meta.ts';
import { eventComponent, windlassAnnotation } from '../api/core/well-known.ts';
import { type CommandName, parseCommandText, unreadableCommandEvent } from '../api/engine/operations.ts';
import type { KubeClient } from '../kube/client.ts';
import { tellEvent } from '../kube/events.ts';
import type { PassResult } from '../kube/keyed-queue.ts';
import { unlessMovedOn } from '../kube/moved-on.ts';
import type { Starter, WantedOperation } from './starter.ts';

/** Whom a command is passed on to. */
export type Commanded =
  /** To a run that is there, as soon as Temporal knows what the object says now. */
  | {
      readonly kind: 'running';
      readonly workflowId: string;
      /** UID of the request that it is meant for, where several follow one another under one ID. */
      readonly request?: string;
    }
  /** To a run that is started for it if there is none. */
  | { readonly kind: 'started'; readonly operation: WantedOperation }
  /** To a run that nobody may start yet: a command stays where it is until then. */
  | { readonly kind: 'later' }
  /** To nobody in Temporal: it is obeyed here. False: that could not be written down yet, and the command stays. */
  | { readonly kind: 'here'; readonly obey: (command: AnnotatedCommand) => Promise<boolean> }
  /** To nobody: there is nothing to command, so it is only taken off. */
  | { readonly kind: 'nobody' };

/** A command as the annotation of an object has it. */
export interface AnnotatedCommand {
  readonly name: CommandName;
  readonly target?: string;
  readonly by: string;
  /** The same for each delivery. */
  readonly id: string;
}

export interface CommandDependencies {
  /** Without `create` nobody is answered by an Event. */
  readonly kube: Pick<KubeClient, 'patch'> & Partial<Pick<KubeClient, 'create'>>;
  readonly starter: Pick<Starter, 'command' | 'isSent'>;
}

/** Whether somebody has left a command in the annotation of this object. */
export function hasCommand({ metadata }: Pick<KubeObject, 'metadata'>): boolean {
  return metadata.annotations?.[windlassAnnotation.command] !== undefined;
}

/**
 * Passes on the command in the annotation of an object, and then takes it off, as what is no command. Its ID makes a
 * second delivery harmless. Answers when to ask again, should nobody be there to hear it yet.
 */
export async function passOnCommand(
  object: Pick<KubeObject, 'metadata'>,
  resource: Resource,
  understood: readonly CommandName[],
  commanded: Commanded,
  { kube, starter }: CommandDependencies,
): Promise<PassResult | undefined> {
  const { annotations, namespace = '', name, uid } = object.metadata;
  const text = annotations?.[windlassAnnotation.command];
  if (text === undefined) return undefined;
  const command = parseCommandText(text, understood);
  if (command && commanded.kind === 'later') return undefined;
  if (command) {
    const { by, at } = commander(object);
    const annotated: AnnotatedCommand = { ...command, by, id: `${uid}/${at}/${text}` };
    const { name: commandName, ...payload } = annotated;
    switch (commanded.kind) {
      case 'here':
        // what has changed meanwhile brings the next reconcile
        if (!(await commanded.obey(annotated))) return undefined;
        break;
      case 'started':
        await starter.command(commanded.operation.workflowId, commandName, payload, commanded.operation);
        break;
      case 'running': {
        if (!starter.isSent(commanded.workflowId)) return { againInMs: 500 };
        const { workflowId, request } = commanded;
        await starter.command(workflowId, commandName, { ...payload, ...(request !== undefined && { request }) });
        break;
      }
      case 'later':
      case 'nobody':
        break;
    }
  }
  const path = jsonPointer('metadata', 'annotations', windlassAnnotation.command);
  const removal = [
    { op: 'test', path: '/metadata/uid', value: uid },
    { op: 'test', path, value: text },
    { op: 'remove', path },
  ];
  const removed = await unlessMovedOn(kube.patch(resource, { namespace, name }, 'json', removal));
  const { create } = kube;
  if (!command && removed && create) {
    const about = { apiVersion: apiVersionOf(resource), kind: resource.kind, metadata: object.metadata };
    const event = unreadableCommandEvent(text, understood);
    await tellEvent(
      { create: create.bind(kube) },
      { about, component: eventComponent.commands, atMs: Date.now(), type: 'Warning', ...event },
    );
  }
  return undefined;
}

/**
 * Who wrote the annotation and when, as far as the object tells: the field manager, `kubectl-annotate` for example. The client
 * chooses that name, so it tells people where to ask and proves nothing.
 */
function commander({ metadata }: Pick<KubeObject, 'metadata'>): { readonly by: string; readonly at: string } {
  const owner = metadata.managedFields?.find(ownsCommand);
  const by = owner?.manager === undefined ? 'an annotation' : `annotation of ${owner.manager}`;
  return { by, at: owner?.time ?? '' };
}

/** What is read of an object's metadata to pass a command on: the command, and who left it there. Empty without one. */
export function commandIn({
  annotations,
  managedFields,
}: ObjectMeta): Pick<ObjectMeta, 'annotations' | 'managedFields'> {
  const command = annotations?.[windlassAnnotation.command];
  if (command === undefined) return {};
  const owner = managedFields?.find(ownsCommand);
  return { annotations: { [windlassAnnotation.command]: command }, ...(owner && { managedFields: [owner] }) };
}

function ownsCommand({ fieldsV1 }: NonNullable<ObjectMeta['managedFields']>[number]): boolean {
  return JSON.stringify(fieldsV1 ?? {}).includes(`"f:${windlassAnnotation.command}"`);
}
