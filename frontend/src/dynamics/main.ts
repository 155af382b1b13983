// The page of focalibrate-papers: a training run, with the style of the others.

import type { DynamicsDocument } from '../document';
import { start } from '../start';
import { dynamicsPage } from './page';

start<DynamicsDocument>(dynamicsPage);
