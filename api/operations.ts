import { restartContainersType } from './container-recreate-request/operation.ts';
import { rollOutType } from './fleet/operation.ts';
import { pullOnNodesType } from './image-pull-job/operation.ts';
import { terminateSidecarsType } from './job-sidecar-termination.ts';
import { pullImagesType } from './node-image/operation.ts';

/** The workflow types of all operations. What must exist for each of them is a registry of type `PerOperation`. */
export const operationTypes = [
  restartContainersType,
  rollOutType,
  pullImagesType,
  pullOnNodesType,
  terminateSidecarsType,
] as const;

export type OperationType = (typeof operationTypes)[number];

/** Something for each operation: it does not compile until every operation has a line. */
export type PerOperation<Part> = Readonly<Record<OperationType, Part>>;
