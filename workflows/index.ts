export { pullImages } from './pull-images.ts';
export { pullOnNodes } from './pull-on-nodes.ts';
export { restartContainers } from './restart-containers.ts';
export { rollOut } from './roll-out.ts';
export { swapSidecar } from './swap-sidecar.ts';
export { terminateSidecars } from './terminate-sidecars.ts';
