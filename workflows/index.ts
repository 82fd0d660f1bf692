export { restartContainers } from './restart-containers.ts';
