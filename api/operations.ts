import { restartContainersType } from './container-recreate-request/operation.ts';
import { rollOutType } from './fleet/operation.ts';
import { pullOnNodesType } from './image-pull-job/operation.ts';
import { terminateSidecarsType } from './job-sidecar-termination.ts';
import { pullImagesType } from './node-image/operation.ts';
import { swapSidecarType } from './sidecar-set/swap.ts';

/** The workflow types of all operations. A registry of type `PerOperation` has something for each of them. */
export const operationTypes = [
  restartContainersType,
  rollOutType,
  pullImagesType,
  pullOnNodesType,
  terminateSidecarsType,
  swapSidecarType,
] as const;

export type OperationType = (typeof operationTypes)[number];

/** Something for each operation: the compiler requires a line for every operation. */
export type PerOperation<Part> = Readonly<Record<OperationType, Part>>;
