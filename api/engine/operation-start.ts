import { searchAttributes } from './operations.ts';

/** A run of an operation to be started. */
export interface OperationStart {
  readonly workflowId: string;
  readonly workflowType: string;
  readonly taskQueue: string;
  /** The first argument of the workflow. */
  readonly argument: unknown;
  /** The summary in Temporal's lists. */
  readonly summary: string;
  /** The object of the operation, for search attributes and memo. */
  readonly about: {
    readonly kind: string;
    readonly namespace: string;
    readonly name: string;
    readonly node: string;
    /** The workflow ID of the operation that has caused this one. Absent: no operation has. */
    readonly cause?: string | undefined;
  };
}

/**
 * Options of the Temporal client for the start of a run. An operation is started again under the same ID when there is
 * more to do, so a closed run is no obstacle; a running one is not replaced. `memo`: added to that of every operation.
 */
export function startOptions(
  { workflowId, taskQueue, summary, about }: Omit<OperationStart, 'argument' | 'workflowType'>,
  memo: Readonly<Record<string, string>>,
) {
  const { kind, namespace, name, node, cause } = about;
  return {
    workflowId,
    taskQueue,
    workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    staticSummary: summary,
    memo: { kind, namespace, name, ...memo },
    searchAttributes: {
      [searchAttributes.kind]: [kind],
      [searchAttributes.namespace]: [namespace],
      [searchAttributes.name]: [name],
      [searchAttributes.node]: [node],
      ...(cause !== undefined && { [searchAttributes.cause]: [cause] }),
    },
  } as const;
}
