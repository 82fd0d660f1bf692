import { type TSchemaOptions, Type } from 'typebox';
import type { JsonObject } from '../base/json.ts';
import { ordersLimit } from '../fleet/roll-out-orders.ts';

// Parts of schemas that several kinds share. Every list and string has a maximum size, because the API server estimates
// the cost of CEL rules from the largest object that the schema allows.

interface Range {
  readonly minimum?: number;
  readonly maximum?: number;
}

/** The largest `int32`. The API server does not check the format, so a field that users write needs it as a maximum. */
export const maxInt32 = 2 ** 31 - 1;

/** An integer of 32 bits, Go's `int32`. */
export function int32(options: TSchemaOptions & Range = {}) {
  return Type.Integer({ ...options, format: 'int32' });
}

/** An integer of 64 bits, Go's `int64`. */
export function int64(options: TSchemaOptions & Range = {}) {
  return Type.Integer({ ...options, format: 'int64' });
}

/** A point in time on the wire: RFC 3339. */
export function time(options: TSchemaOptions = {}) {
  return Type.String({ ...options, format: 'date-time' });
}

/** A port by number or by the name that a container gives it. */
export function intOrString(options: TSchemaOptions = {}) {
  return Type.Union([Type.Integer(), Type.String({ maxLength: 63 })], options);
}

/** A list whose items are identified by one field, so that several writers can each own an item. */
export function listKeyedBy(key: string): TSchemaOptions {
  return { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': [key] };
}

/** A rule that the API server checks itself (`x-kubernetes-validations`). */
export interface CelRule {
  readonly rule: string;
  readonly message: string;
  readonly reason?: 'FieldValueInvalid' | 'FieldValueForbidden' | 'FieldValueRequired' | 'FieldValueDuplicate';
  readonly fieldPath?: string;
}

/** Schema options that carry CEL rules. */
export function cel(...rules: readonly CelRule[]): TSchemaOptions {
  return { 'x-kubernetes-validations': rules };
}

/** A number of objects, or a percentage such as `20%`. */
export function intOrPercent(options: TSchemaOptions = {}) {
  return Type.Union([Type.Integer(), Type.String()], options);
}

/** A selector of objects by labels. */
export function labelSelector(options: TSchemaOptions = {}) {
  const requirement = Type.Object({
    key: Type.String(),
    operator: Type.String({ description: '`In`, `NotIn`, `Exists` or `DoesNotExist`.' }),
    values: Type.Optional(Type.Array(Type.String(), { 'x-kubernetes-list-type': 'atomic' })),
  });
  return Type.Object(
    {
      matchLabels: Type.Optional(Type.Record(Type.String(), Type.String())),
      matchExpressions: Type.Optional(Type.Array(requirement, { 'x-kubernetes-list-type': 'atomic' })),
    },
    { ...options, 'x-kubernetes-map-type': 'atomic' },
  );
}

/** A Kubernetes object that passes through unchanged, with unknown fields. */
export function openObject(options: TSchemaOptions = {}) {
  return Type.Unsafe<JsonObject>(Type.Object({}, { ...options, 'x-kubernetes-preserve-unknown-fields': true }));
}

/** The standard condition. */
export function conditions(description: string) {
  return Type.Array(
    Type.Object({
      type: Type.String({ maxLength: 316, minLength: 1 }),
      status: Type.Union([Type.Literal('True'), Type.Literal('False'), Type.Literal('Unknown')]),
      reason: Type.String({ maxLength: 1024, minLength: 1, pattern: '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$' }),
      message: Type.String({ maxLength: 32768 }),
      lastTransitionTime: time(),
      observedGeneration: Type.Optional(int64({ minimum: 0 })),
    }),
    { ...listKeyedBy('type'), maxItems: 32, description },
  );
}

/** The orders of operators, in the shape of `api/fleet/roll-out-orders.ts`. */
export function rollOutOrders() {
  const order = {
    by: Type.String({ maxLength: ordersLimit.by, description: 'Who gave the command.' }),
    at: Type.String({ maxLength: ordersLimit.at, description: 'When the command was given.' }),
  };
  const revision = { minLength: 1, maxLength: ordersLimit.revision };
  return Type.Object(
    {
      version: Type.Integer({
        minimum: 0,
        maximum: ordersLimit.version,
        format: 'int64',
        description: 'Grows with every change of the orders.',
      }),
      revision: Type.String({
        ...revision,
        description: 'The revision of the spec when they were given. For another one all but `paused` are void.',
      }),
      paused: Type.Optional(
        Type.Object(order, { description: 'No further pod is disrupted until the command `resume`.' }),
      ),
      aborted: Type.Optional(
        Type.Object(order, { description: 'No further pod is updated to this revision until `resume` or `retry`.' }),
      ),
      undo: Type.Optional(
        Type.Object(
          { ...order, to: Type.String({ ...revision, description: 'The revision that pods have instead.' }) },
          { description: 'Pods go back to another revision, and new ones have it.' },
        ),
      ),
      skip: Type.Optional(
        Type.Array(Type.String({ maxLength: ordersLimit.name }), {
          maxItems: ordersLimit.skip,
          'x-kubernetes-list-type': 'atomic',
          description: 'Names of pods that are left out.',
        }),
      ),
      applied: Type.Optional(
        Type.Array(Type.String({ maxLength: ordersLimit.key }), {
          maxItems: ordersLimit.applied,
          'x-kubernetes-list-type': 'atomic',
          description: 'The keys of the last commands that were applied.',
        }),
      ),
    },
    {
      description:
        'The commands of operators that are in effect. Windlass writes them. Absent: none. Not in OpenKruise.',
    },
  );
}

/** What an operation waits for, in the shape of `api/engine/waiting-for.ts`. */
export function waitingFor() {
  return Type.Object(
    {
      reason: Type.String({ maxLength: 64, description: 'The reason in CamelCase.' }),
      blockedBy: Type.Array(Type.String({ maxLength: 512 }), {
        maxItems: 10,
        description: 'The first ten objects that block the operation, as `kind/name`.',
        'x-kubernetes-list-type': 'atomic',
      }),
      blockedCount: int32({ minimum: 0, description: 'The number of all objects that block the operation.' }),
      since: time({ description: 'When the wait began.' }),
      unblock: Type.String({ maxLength: 32768, description: 'How to unblock the operation.' }),
    },
    { description: 'What the operation waits for. Absent while it does not wait.' },
  );
}
