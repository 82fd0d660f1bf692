// How the API server answers a manifest: whether the object exists, and what a dry run makes of it.

import type { JsonObject } from '../api/base/json.ts';
import { describeError, type FieldError, messageOf } from '../api/core/field-error.ts';
import type { KubeObject, Resource } from '../api/core/meta.ts';
import type { KubeClient } from '../kube/client.ts';
import { isGone, KubeError } from '../kube/failures.ts';
import { CommandFailed, describeFailure } from './failure.ts';

interface ObjectName {
  readonly namespace?: string;
  readonly name: string;
}

/** The object as it is; undefined when it does not exist. Throws where its kind does not. */
export async function findObject(
  kube: KubeClient,
  resource: Resource,
  ref: ObjectName,
): Promise<JsonObject | undefined> {
  try {
    return asJson(await kube.get(resource, ref));
  } catch (error) {
    if (!isGone(error)) throw error;
    // a 404 may mean that the kind is missing, and then no object of it can be created
    await kube.list(resource, { ...(ref.namespace !== undefined && { namespace: ref.namespace }), limit: 1 });
    return undefined;
  }
}

/** A dry run: whether schema, policies and other webhooks accept the object, and what they change in it. */
export async function tryOut(
  kube: KubeClient,
  /** `id`: for messages; `patch`: of the object as it is. Absent: it does not exist. */
  {
    id,
    resource,
    ref,
    wanted,
    patch,
  }: {
    readonly id: string;
    readonly resource: Resource;
    readonly ref: ObjectName;
    readonly wanted: JsonObject;
    readonly patch: JsonObject | undefined;
  },
): Promise<{ readonly object?: JsonObject; readonly notes: readonly string[] }> {
  try {
    const object =
      patch === undefined
        ? await kube.create(resource, wanted, { dryRun: true, fieldManager, fieldValidation: 'Strict' })
        : await kube.patch(resource, ref, 'merge', patch, { dryRun: true, fieldManager, fieldValidation: 'Strict' });
    return { object: asJson(object), notes: [] };
  } catch (error) {
    if (!(error instanceof KubeError)) throw error;
    const isUntried = error.status === 0 || error.status >= 500 || isMissingRight(error);
    if (isUntried) return { notes: [`no dry run on the API server, checked by the plugin only: ${error.message}`] };
    const causes = error.causes.map(({ field = '', message = '' }) => ({ field, detail: message }));
    refuse(id, causes);
    throw new CommandFailed(`${id} would be refused: ${describeFailure(error)}`);
  }
}

/** Throws where there are problems, and names each. */
export function refuse(id: string, problems: readonly FieldError[]): void {
  if (problems.length === 0) return;
  const lines = problems.map((problem) => (problem.field === '' ? messageOf(problem) : describeError(problem)));
  const [only = ''] = lines;
  throw new CommandFailed(
    `${id} is invalid:${lines.length === 1 ? ` ${only}` : lines.map((line) => `\n* ${line}`).join('')}`,
  );
}

/** The field manager of `kubectl apply`. */
const fieldManager = 'kubectl-client-side-apply';

function isMissingRight({ status, message }: KubeError): boolean {
  return status === 403 && /cannot (patch|create|update) resource/.test(message);
}

function asJson(object: KubeObject): JsonObject {
  return object as unknown as JsonObject;
}
