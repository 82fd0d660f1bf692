/** Commands of operators that come as an annotation of the object, for those who may not signal workflows. */
import type { KubeClient } from '../activities/kube/client.ts';
import { jsonPointer } from '../api/json.ts';
import type { KubeObject, ObjectMeta, Resource } from '../api/meta.ts';
import { type CommandName, parseCommandText } from '../api/operations.ts';
import { windlassAnnotation } from '../api/well-known.ts';
import type { PassResult } from './keyed-queue.ts';
import { unlessMovedOn } from './moved-on.ts';
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
  readonly kube: Pick<KubeClient, 'patch'>;
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
  await unlessMovedOn(kube.patch(resource, { namespace, name }, 'json', removal));
  return undefined;
}

/** Who wrote the annotation and when, as far as the object tells: the field manager, `kubectl-annotate` for example. */
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
